#!/bin/sh
# Takes a second, and then has a result that is an error.
sleep 1
printf '{"type":"result","data":"it failed","is_error":true,"content":[{"type":"text","text":"it failed"}]}\n'
