#!/usr/bin/env bash
# A Reverse SMS check from create to callback. `./flow.sh listen` only receives and verifies callbacks.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

export BASE_URL="${BASE_URL:-http://127.0.0.1:8080}"
phone_number="${PHONE_NUMBER:-+990123456700}"
STATE="$(mktemp -d)"
export STATE
stop() {
    [[ -z "${receiver_PID:-}" ]] || kill "$receiver_PID" || true
    rm -rf "$STATE"
}
trap stop EXIT

# A receiver of callbacks: receive.sh for each connection. Standard error tells of both.
coproc receiver {
    exec socat -d -d "TCP-LISTEN:${CALLBACK_PORT:-9099},bind=127.0.0.1,fork,reuseaddr" "EXEC:$here/receive.sh" 2>&1
}
news="${receiver[0]}"
callback_url=''
while [[ -z "$callback_url" ]] && IFS= read -r line <&"$news"; do
    [[ "$line" =~ \ listening\ on\ .*:([0-9]+)$ ]] && callback_url="http://127.0.0.1:${BASH_REMATCH[1]}/callbacks"
done
: "${callback_url:?the receiver does not listen: $line}"
echo "listening on $callback_url"

# Shows what the receiver says, until it has verified the callback of a check.
watch() {
    local line
    while IFS= read -r line <&"$news"; do
        [[ "$line" != verified:* && "$line" != refused:* && "$line" != the\ * ]] || echo "$line"
        [[ "$line" != "verified: $1 "* ]] || return 0
    done
    return 1
}
[[ "${1:-}" != listen ]] || watch none

# A problem says what is wrong (`detail`), and `type` is a page about it.
call() {
    local path="$1"
    shift
    curl --silent --show-error --fail-with-body "$@" "$BASE_URL$path"
}
# Secrets go by standard input: every user of a machine can read the arguments of a command.
token="$(call /oauth2/token --config - -d grant_type=client_credentials -d scope=reverse_sms \
    <<< "user = \"${CLIENT_ID:?}:${CLIENT_SECRET:?}\"" | jq --raw-output .access_token)"
post() {
    call "$1" --config - -H 'content-type: application/json' --data "$2" <<< "header = \"authorization: Bearer $token\""
}
check="$(post /v1/number-verification/reverse-sms-checks \
    "$(jq --null-input --arg number "$phone_number" --arg url "$callback_url" '{phone_number: $number, callback_url: $url}')")"
check_id="$(jq --raw-output .check_id <<< "$check")"

# What your app shows: a link that opens the user's messages, with everything filled in.
jq --raw-output '"Android: sms:\(.receiver_phone_number)?body=\(.expected_sms_body | @uri)",
    "iOS:     sms:\(.receiver_phone_number)&body=\(.expected_sms_body | @uri)"' <<< "$check"
if [[ "$phone_number" == +990* ]]; then
    # Nobody has such a number: in a sandbox project a simulated handset sends the SMS.
    post /v1/sandbox/inbound-sms \
        "$(jq --arg from "$phone_number" '{from: $from, to: .receiver_phone_number, body: .expected_sms_body}' <<< "$check")"
fi

watch "$check_id"
jq --raw-output 'if .match then "the number is theirs" else "not proven: \(.)" end' "$STATE/$check_id.json"
