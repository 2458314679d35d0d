#!/bin/sh
# A worker in POSIX shell: it goes through rows, says how far it is, goes on where the attempt before left off, and stops when it is
# told to. It needs sh, cat, sed and sleep. The payload is {"rows": 20}.
set -eu

say() { /leasehold/bin/agent call POST "/v1/$1" "$2"; } # or curl --unix-socket "$LEASEHOLD_SOCKET"

# The file is there before the signal: the reason, and below it what was said about it.
stop() {
	echo "told to stop: $(cat "$LEASEHOLD_CANCEL_FILE")"
	exit 143
}
trap stop TERM

rows=$(sed -n 's/^ *{ *"rows" *: *\([0-9]\{1,9\}\) *} *$/\1/p' "$LEASEHOLD_PAYLOAD_FILE")
if [ -z "$rows" ]; then
	say fail '{"retryable": false, "effect": "None", "reason": "PayloadInvalid", "message": "the payload is not {\"rows\": N}"}' || : # the exit code says it, too
	exit 65
fi

begin=0
if [ -s "$LEASEHOLD_CHECKPOINT_FILE" ]; then begin=$(cat "$LEASEHOLD_CHECKPOINT_FILE"); fi
row=$begin
while [ "$row" -lt "$rows" ]; do
	sleep 0.5 & # the work on a row, which is in a store after this; a signal ends the wait
	wait $!
	row=$((row + 1))
	say checkpoint "{\"checkpoint\": \"$row\"}" || : # a word that is not heard is no reason to break off
	say progress "{\"current\": $row, \"total\": $rows, \"message\": \"rows\"}" || :
done
printf '{"rows": %d, "from": %d}' "$rows" "$begin" >"$LEASEHOLD_RESULT_FILE"
