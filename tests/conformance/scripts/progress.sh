#!/bin/sh
# 0, 50 and 100 of 100, 50 ms apart.
for step in 0 50 100; do
  printf '{"type":"progress","step":%d,"totalSteps":100,"message":"Completed step %d of 100"}\n' "$step" "$step"
  sleep 0.05
done
printf '{"type":"result","data":"done"}\n'
