#!/bin/sh
# work.sh half | asking | whole | flaky MARKER | long
case $1 in
half)
  echo '{"type":"progress","step":1,"totalSteps":4,"message":"Mixing the dough"}'
  echo '{"type":"progress","step":2,"totalSteps":4,"message":"Baking <b>slowly</b>"}'
  echo '{"type":"partial","data":{"layers":[{"name":"Sponge","minutes":25,"ready":true},{"name":"<img src=x onerror=alert(1)>Cream","minutes":10,"ready":false}]}}'
  exec sleep 600
  ;;
asking)
  read -r job
  echo '{"type":"ask","key":"table","message":"Which table, on <b>Friday</b>?","schema":{"type":"object","properties":{"name":{"type":"string","title":"Name","minLength":2},"guests":{"type":"integer","title":"Guests","minimum":1,"maximum":8,"default":2},"place":{"type":"string","title":"Place","oneOf":[{"const":"in","title":"Inside"},{"const":"out","title":"On the terrace"}]},"cake":{"type":"boolean","title":"With cake"}},"required":["name","guests"]}}'
  read -r answer
  case $answer in
  *accept*) printf '{"type":"result","data":%s}\n' "$answer" ;;
  *) echo '{"type":"result","data":"No table, then."}' ;;
  esac
  ;;
whole)
  echo '{"type":"progress","step":3,"totalSteps":3,"message":"Everything is arranged"}'
  echo '{"type":"result","data":{"venue":"The old boathouse","guests":24,"gifts":[{"title":"Watercolour set","price":34.5,"reason":"She paints every summer"},{"title":"Field guide to birds","price":22,"reason":"<script>alert(1)</script> & a garden full of them"}],"tags":["outdoors","evening"]},"summary":"A party for 24"}'
  ;;
flaky)
  if [ -e "$2" ]; then
    echo '{"type":"result","data":"Two dozen tulips are on their way."}'
  else
    : >"$2"
    echo '{"type":"error","class":"permanent","message":"The shop is closed on <i>Mondays</i>."}'
  fi
  ;;
long)
  i=0
  while [ "$i" -lt 2000 ]; do i=$((i + 1)); echo "Chapter $i, in which nothing much happens."; done
  ;;
esac
