#!/usr/bin/env bash
# Verifies a number from creation to callback: `./flow.sh [reverse-sms | secure-sna | verification]`.
# `./flow.sh listen` only receives and verifies callbacks.
set -euo pipefail
case "${1:-reverse-sms}" in
    reverse-sms) scope=reverse_sms path=/v1/number-verification/reverse-sms-checks ;;
    secure-sna) scope=secure_sna path=/v1/number-verification/secure-sna-checks ;;
    verification) scope=verification path=/v1/verifications ;;
    listen) ;;
    *)
        echo "unknown argument: $1; expected reverse-sms, secure-sna, verification or listen" >&2
        exit 2
        ;;
esac
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
# A token has one scope, and is valid for an hour. Cache it.
access_token() {
    call /oauth2/token --config - -d grant_type=client_credentials -d "scope=$1" \
        <<< "user = \"${CLIENT_ID:?}:${CLIENT_SECRET:?}\"" | jq --raw-output .access_token
}
get() {
    call "$2" --config - <<< "header = \"authorization: Bearer $1\""
}
post() {
    call "$2" --config - -H 'content-type: application/json' --data "$3" <<< "header = \"authorization: Bearer $1\""
}

token="$(access_token "$scope")"
created="$(post "$token" "$path" \
    "$(jq --null-input --arg number "$phone_number" --arg url "$callback_url" '{phone_number: $number, callback_url: $url}')")"
id="$(jq --raw-output '.check_id // .verification_id' <<< "$created")"

# Secure SNA: your app opens the URL over mobile data, and passes the code to your backend, which redeems it. Sets the
# next step of a verification.
verify_silently() {
    local url code result
    url="$(jq --raw-output .url <<< "$step")"
    echo "Phone: open $url"
    step=null
    [[ "$phone_number" == +990* ]] || return 0
    code="$(curl --silent --show-error --location -H 'accept: application/json' "$url" | jq --raw-output '.code // empty')"
    if [[ -n "$code" ]]; then
        result="$(post "$token" "$path/$id" "$(jq --null-input --arg code "$code" '{code: $code}')")"
    else
        # The operator has failed: a verification goes on with its next method.
        result="$(get "$token" "$path/$id")"
    fi
    step="$(jq --compact-output .next_step <<< "$result")"
}

# Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in.
ask_for_sms() {
    jq --raw-output '"Android: sms:\(.receiver_phone_number)?body=\(.expected_sms_body | @uri)",
        "iOS:     sms:\(.receiver_phone_number)&body=\(.expected_sms_body | @uri)"' <<< "$step"
    if [[ "$phone_number" == +990* ]]; then
        # A sandbox number: a simulated handset sends the SMS.
        post "$(access_token reverse_sms)" /v1/sandbox/inbound-sms \
            "$(jq --arg from "$phone_number" '{from: $from, to: .receiver_phone_number, body: .expected_sms_body}' <<< "$step")"
    fi
    if jq --exit-status .next_step <<< "$created" > /dev/null; then wait_for_following_step; else step=null; fi
}

# Waits until a verification goes on or ends. A text from another number may be sent once more, with a new text.
wait_for_following_step() {
    local previous="$step"
    while step="$(get "$token" "$path/$id" | jq --compact-output .next_step)" && [[ "$step" == "$previous" ]]; do
        sleep 1
    done
}

# A verification has `next_step` while it is open; a check has the members of its step.
step="$(jq --compact-output '.next_step // .' <<< "$created")"
while [[ "$step" != null ]]; do
    if jq --exit-status .url <<< "$step" > /dev/null; then verify_silently; else ask_for_sms; fi
done
wait_for_callback "$id"
jq --raw-output 'if .match then "number verified" else "number not verified: \(.)" end' "$STATE/$id.json"
