#!/bin/sh
# Ends as a JSON-RPC error.
printf '{"type":"error","class":"permanent","message":"the protocol was broken on purpose","code":"protocol_error","rpc_code":-31001}\n'
