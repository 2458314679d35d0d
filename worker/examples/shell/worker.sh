#!/bin/sh
# A worker in POSIX shell: it goes through rows, says how far it is, goes on where the attempt before left off, and stops when it is
# told to. It needs sh, cat, mv, sed, sleep and tr. The payload is {"rows": 20}. Without the agent's socket it does the same with files alone.
set -eu

not_started() {
	echo "$1: this process was not started by the agent" >&2
	exit 64
}
for name in PAYLOAD_FILE RESULT_FILE CHECKPOINT_FILE CANCEL_FILE; do
	if eval "[ -z \"\${LEASEHOLD_$name:-}\" ]"; then not_started "LEASEHOLD_$name is not set"; fi
done

# Or curl --unix-socket "$LEASEHOLD_SOCKET". A word that is not heard is no reason to break off.
say() { [ -n "${LEASEHOLD_SOCKET:-}" ] && /leasehold/bin/agent call POST "/v1/$1" "$2"; }

# The file is there before the signal: the reason, and below it what was said about it.
stop() {
	echo "told to stop: $(cat "$LEASEHOLD_CANCEL_FILE" 2>/dev/null || echo Terminated)"
	exit 143
}
trap stop TERM

payload=$(cat "$LEASEHOLD_PAYLOAD_FILE") || not_started "the payload cannot be read"
rows=$(printf '%s' "$payload" | tr '\n' ' ' | sed -n 's/^ *{ *"rows" *: *\([0-9]\{1,9\}\) *} *$/\1/p')
case $rows in '' | *[!0-9]* | 0?*)
	say fail '{"retryable": false, "effect": "None", "reason": "PayloadInvalid", "message": "the payload is not {\"rows\": N}"}' || : # the exit code says it, too
	exit 65
	;;
esac

begin=$(cat "$LEASEHOLD_CHECKPOINT_FILE" 2>/dev/null) || begin=0
case $begin in '' | *[!0-9]* | 0?* | ??????????*) begin=0 ;; esac # no number of a row: from the start
row=$begin
while [ "$row" -lt "$rows" ]; do
	sleep 0.5 & # the work on a row, which is in a store after this; a signal ends the wait
	wait $!
	row=$((row + 1))
	if ! say checkpoint "{\"checkpoint\": \"$row\"}"; then
		echo "$row" >"$LEASEHOLD_CHECKPOINT_FILE.draft"
		mv "$LEASEHOLD_CHECKPOINT_FILE.draft" "$LEASEHOLD_CHECKPOINT_FILE"
	fi
	say progress "{\"current\": $row, \"total\": $rows, \"message\": \"rows\"}" || :
done
printf '{"rows": %d, "from": %d}' "$rows" "$begin" >"$LEASEHOLD_RESULT_FILE"
