#!/usr/bin/env bash
# Reverse SMS check, from creation to callback. `./flow.sh listen` only receives and verifies callbacks.
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

# Callback receiver: socat runs receive.sh for each connection. Both log to standard error.
coproc receiver {
    exec socat -d -d "TCP-LISTEN:${CALLBACK_PORT:-9099},bind=127.0.0.1,fork,reuseaddr" "EXEC:$here/receive.sh" 2>&1
}
receiver_log="${receiver[0]}"
callback_url=''
while [[ -z "$callback_url" ]] && IFS= read -r line <&"$receiver_log"; do
    [[ "$line" =~ \ listening\ on\ .*:([0-9]+)$ ]] && callback_url="http://127.0.0.1:${BASH_REMATCH[1]}/callbacks"
done
: "${callback_url:?socat failed to listen: $line}"
echo "listening on $callback_url"

# Prints the receiver's log until it has verified the callback of a check.
wait_for_callback() {
    local line
    while IFS= read -r line <&"$receiver_log"; do
        [[ "$line" != verified:* && "$line" != rejected:* && "$line" != failed\ * ]] || echo "$line"
        [[ "$line" != "verified: $1 "* ]] || return 0
    done
    return 1
}
[[ "${1:-}" != listen ]] || wait_for_callback none

# A problem body explains the error in `detail`; `type` is the URL of its documentation.
call() {
    local path="$1"
    shift
    curl --silent --show-error --fail-with-body "$@" "$BASE_URL$path"
}
# Secrets are passed on standard input: command-line arguments are visible to all users of the machine.
token="$(call /oauth2/token --config - -d grant_type=client_credentials -d scope=reverse_sms \
    <<< "user = \"${CLIENT_ID:?}:${CLIENT_SECRET:?}\"" | jq --raw-output .access_token)"
post() {
    call "$1" --config - -H 'content-type: application/json' --data "$2" <<< "header = \"authorization: Bearer $token\""
}
check="$(post /v1/number-verification/reverse-sms-checks \
    "$(jq --null-input --arg number "$phone_number" --arg url "$callback_url" '{phone_number: $number, callback_url: $url}')")"
check_id="$(jq --raw-output .check_id <<< "$check")"

# Your app shows this link. It opens the messaging app with the receiver and text filled in.
jq --raw-output '"Android: sms:\(.receiver_phone_number)?body=\(.expected_sms_body | @uri)",
    "iOS:     sms:\(.receiver_phone_number)&body=\(.expected_sms_body | @uri)"' <<< "$check"
if [[ "$phone_number" == +990* ]]; then
    # A sandbox number: a simulated handset sends the SMS.
    post /v1/sandbox/inbound-sms \
        "$(jq --arg from "$phone_number" '{from: $from, to: .receiver_phone_number, body: .expected_sms_body}' <<< "$check")"
fi

wait_for_callback "$check_id"
jq --raw-output 'if .match then "number verified" else "number not verified: \(.)" end' "$STATE/$check_id.json"
