#!/bin/sh
# Works for a second, and ends with an error of its own.
sleep 1
printf '{"type":"result","data":null,"is_error":true,"content":[{"type":"text","text":"the job could not be done"}]}\n'
