#!/bin/sh
# ask.sh RESULT KEY SCHEMA [KEY SCHEMA …] [then KEY SCHEMA …]: asks by the schemas' files, waits for the answers of each round, and ends with
# the text RESULT, in which %s is the last name that was answered.
result=$1
shift
name=""
asked=0

# answers: waits until all that was asked is answered.
answers() {
  while [ "$asked" -gt 0 ] && IFS= read -r line; do
    case $line in
      '{"type":"answer"'*)
        asked=$((asked - 1))
        said=$(printf '%s' "$line" | sed -n 's/.*"name":"\([^"]*\)".*/\1/p')
        name=${said:-$name}
        ;;
    esac
  done
}

while [ $# -gt 0 ]; do
  if [ "$1" = then ]; then
    answers
    shift
  else
    printf '{"type":"ask","key":"%s","message":"Please say: %s","schema":%s}\n' "$1" "$1" "$(tr -d '\n' <"schemas/$2.json")"
    asked=$((asked + 1))
    shift 2
  fi
done
answers
# shellcheck disable=SC2059 # it is a format
printf '{"type":"result","data":"%s"}\n' "$(printf "$result" "$name")"
