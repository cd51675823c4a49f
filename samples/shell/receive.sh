#!/usr/bin/env bash
# Takes one callback on standard input, verifies it with OpenSSL, and answers it on standard output: what socat, inetd
# and systemd's sockets (Accept=yes) start for each connection. Says on standard error what it did.
#
# STATE is a folder of its own, for the public keys and for what came: STATE/CHECK_ID.json. ACCEPT_SANDBOX=1 accepts
# callbacks of sandbox checks, which prove nothing about a number. A valid callback can still be about somebody else's
# check: refuse a check_id that you did not create.
set -euo pipefail
export LC_ALL=C # a character is a byte
: "${BASE_URL:?}" "${STATE:?}"

readonly components='(request-target) host date x-service-callback digest'
readonly largest_body=65536
# How far the two clocks may be apart. Whoever records a callback can replay it for this long: `check_id` tells.
readonly max_skew=300

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

answer() {
    printf 'HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n' "$1"
}

refuse() {
    echo "refused: $*" >&2
    answer '401 Unauthorized'
    exit 0
}

# The request line, then headers up to an empty line. Only those that count are kept, and none may be there twice.
IFS=' ' read -r -n 8192 method target _
host='' date='' source='' digest='' authorization='' length=''
keep() {
    local -n kept="$1"
    [[ -z "$kept" ]] || refuse "the header for $1 is there twice"
    kept="$2"
}
for ((lines = 0; ; lines++)); do
    ((lines < 100)) || refuse 'too many headers'
    IFS= read -r -n 8192 line || refuse 'the request broke off'
    line="${line%$'\r'}"
    [[ -n "$line" ]] || break
    value="${line#*:}"
    value="${value#"${value%%[! $'\t']*}"}"
    value="${value%"${value##*[! $'\t']}"}"
    name="${line%%:*}"
    case "${name,,}" in
        host) keep host "$value" ;;
        date) keep date "$value" ;;
        x-service-callback) keep source "$value" ;;
        digest) keep digest "$value" ;;
        authorization) keep authorization "$value" ;;
        content-length) keep length "$value" ;;
    esac
done
for name in host date source digest authorization; do
    [[ -n "${!name}" ]] || refuse "there is no header for $name"
done
[[ "$length" =~ ^[0-9]{1,5}$ ]] || refuse 'the length of the body is not said'
((10#$length <= largest_body)) || refuse 'the body is too large'
# The bytes as they came: a shell's variable would lose some.
head -c "$((10#$length))" > "$work/body"

# Of whom, by what, over what.
pattern='^Signature keyId="([A-Za-z0-9_-]+)",algorithm="rsa-sha256",headers="([^"]*)",signature="([A-Za-z0-9+/=]+)"$'
[[ "$authorization" =~ $pattern ]] || refuse "the Authorization header is not a signature of Ringtrue's"
key_id="${BASH_REMATCH[1]}"
[[ "${BASH_REMATCH[2]}" == "$components" ]] || refuse 'the signature does not cover what it must'
base64 --decode <<< "${BASH_REMATCH[3]}" > "$work/signature" 2> /dev/null || refuse 'the signature is not base64'

actual="SHA-256=$(openssl dgst -sha256 -binary "$work/body" | base64 --wrap=0)"
[[ "$digest" == "$actual" ]] || refuse 'the body is not the one that was signed'

# The key. Keys change seldom; without a pause, anybody could make us ask for them with every request.
find_key() {
    [[ -f "$STATE/keys.json" ]] &&
        jq --exit-status --arg kid "$key_id" '.keys[] | select(.kty == "RSA" and .kid == $kid)' "$STATE/keys.json" > "$work/jwk"
}
if ! find_key; then
    if [[ -z "$(find "$STATE" -name asked -newermt '-30 seconds')" ]]; then
        touch "$STATE/asked"
        if ! curl --silent --fail --max-time 10 --output "$work/keys.json" "$BASE_URL/.well-known/jwks.json"; then
            echo 'the keys cannot be fetched' >&2
            answer '503 Service Unavailable'
            exit 0
        fi
        mv "$work/keys.json" "$STATE/keys.json"
    fi
    find_key || refuse 'the key is not in the key set'
fi
use_mode="$(jq --raw-output '.use_mode // empty' "$work/jwk")"
[[ -z "$use_mode" || ("$use_mode" == sandbox && "${ACCEPT_SANDBOX:-}" == 1) ]] ||
    refuse "the key is for $use_mode checks only"

# A JWK has modulus and exponent in base64url; OpenSSL wants them in ASN.1.
hex_of() {
    local text
    text="$(jq --raw-output ".$1" "$work/jwk" | tr -- '-_' '+/')"
    while ((${#text} % 4)); do text+='='; done
    base64 --decode <<< "$text" | od -An -v -tx1 | tr -d ' \n'
}
cat > "$work/asn1" << ASN1
asn1 = SEQUENCE:key
[key]
algorithm = SEQUENCE:algorithm
public = BITWRAP,SEQUENCE:public
[algorithm]
name = OID:rsaEncryption
parameter = NULL
[public]
n = INTEGER:0x$(hex_of n)
e = INTEGER:0x$(hex_of e)
ASN1
openssl asn1parse -genconf "$work/asn1" -noout -out "$work/key.der"
openssl pkey -pubin -inform DER -in "$work/key.der" -out "$work/key.pem"

# What was signed, without an end of line at its end.
printf '(request-target): %s %s\nhost: %s\ndate: %s\nx-service-callback: %s\ndigest: %s' \
    "${method,,}" "$target" "$host" "$date" "$source" "$digest" > "$work/signed"
openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/signature" "$work/signed" > /dev/null 2>&1 ||
    refuse 'the signature does not fit the request'

at="$(date --date="$date" +%s)" || refuse 'the date is none'
skew=$(($(date +%s) - at))
((skew <= max_skew && skew >= -max_skew)) || refuse 'the date is too far from now'

# Remember it before answering 200: once it is answered, socat ends this script.
check_id="$(jq --raw-output .check_id "$work/body")"
[[ "$check_id" =~ ^[0-9a-f-]{36}$ ]] || refuse 'there is no check in it'
mv --no-clobber "$work/body" "$STATE/$check_id.json"
echo "verified: $check_id $(jq --raw-output '"\(.status) match=\(.match)"' "$STATE/$check_id.json")" >&2
answer '200 OK'
