#!/bin/sh
# change.sh tools | prompts: adds one more to the configuration in this folder, and has the server that started this read it again.
name=added_$(date +%s%N)
case $1 in
tools) printf '\n[tools.%s]\ndescription = "One more."\nrun = { kind = "command", command = ["true"] }\n' "$name" >>server.toml ;;
prompts) printf '\n[prompts.%s]\ndescription = "One more."\nmessages = [{ text = "One more." }]\n' "$name" >>server.toml ;;
esac
kill -HUP "$PPID"
echo "added $name"
