#!/bin/sh
# Three log lines, 50 ms apart.
for line in "Tool execution started" "Tool processing data" "Tool execution completed"; do
  printf '{"type":"log","level":"info","message":"%s"}\n' "$line"
  sleep 0.05
done
printf '{"type":"result","data":"done"}\n'
