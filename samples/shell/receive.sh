#!/usr/bin/env bash
# Reads one callback from standard input, verifies it with OpenSSL, and writes the response to standard output. socat,
# inetd or a systemd socket (Accept=yes) runs it for each connection. It logs to standard error.
#
# CALLBACK_HOST is the host of your callback URL; with socat, the default is the address that it listens on. A callback
# for another receiver has a valid signature, too, and could be replayed with its Host header.
#
# STATE is a folder for the public keys and the verified callbacks (STATE/ID.json). ACCEPT_SANDBOX=1 accepts
# callbacks of sandbox checks, which do not verify a number. A valid callback can belong to a check of another client:
# reject an id that you did not create.
set -euo pipefail
export LC_ALL=C # one byte per character
: "${BASE_URL:?}" "${STATE:?}" "${CALLBACK_HOST:=127.0.0.1:${SOCAT_SOCKPORT:?CALLBACK_HOST is not set}}"

readonly components='(request-target) host date x-service-callback digest'
readonly max_body_bytes=65536
# Maximum clock skew. A recorded callback can be replayed for this long; detect replays by the id.
readonly max_skew=300

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

respond() {
    printf 'HTTP/1.1 %s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n' "$1"
}

reject() {
    echo "rejected: $*" >&2
    respond '401 Unauthorized'
    exit 0
}

# Reads the request line and the headers. Relevant headers must not be repeated.
IFS=' ' read -r -n 8192 method target _
host='' date='' source='' digest='' authorization='' length=''
set_header() {
    local -n header="$1"
    [[ -z "$header" ]] || reject "repeated header for $1"
    header="$2"
}
for ((lines = 0; ; lines++)); do
    ((lines < 100)) || reject 'too many headers'
    IFS= read -r -n 8192 line || reject 'incomplete request'
    line="${line%$'\r'}"
    [[ -n "$line" ]] || break
    value="${line#*:}"
    value="${value#"${value%%[! $'\t']*}"}"
    value="${value%"${value##*[! $'\t']}"}"
    name="${line%%:*}"
    case "${name,,}" in
        host) set_header host "$value" ;;
        date) set_header date "$value" ;;
        x-service-callback) set_header source "$value" ;;
        digest) set_header digest "$value" ;;
        authorization) set_header authorization "$value" ;;
        content-length) set_header length "$value" ;;
    esac
done
for name in host date source digest authorization; do
    [[ -n "${!name}" ]] || reject "missing header for $name"
done
[[ "${host,,}" == "${CALLBACK_HOST,,}" ]] || reject 'the callback is for another host'
[[ "$length" =~ ^[0-9]{1,5}$ ]] || reject 'missing or invalid Content-Length'
((10#$length <= max_body_bytes)) || reject 'the body is too large'
# Stored in a file, because shell variables cannot hold NUL bytes.
head -c "$((10#$length))" > "$work/body"

# Key id, signed headers and signature.
pattern='^Signature keyId="([A-Za-z0-9_-]+)",algorithm="rsa-sha256",headers="([^"]*)",signature="([A-Za-z0-9+/=]+)"$'
[[ "$authorization" =~ $pattern ]] || reject "malformed Authorization header"
key_id="${BASH_REMATCH[1]}"
[[ "${BASH_REMATCH[2]}" == "$components" ]] || reject 'the signature does not cover the required headers'
base64 --decode <<< "${BASH_REMATCH[3]}" > "$work/signature" 2> /dev/null || reject 'signature is not base64'

actual="SHA-256=$(openssl dgst -sha256 -binary "$work/body" | base64 --wrap=0)"
[[ "$digest" == "$actual" ]] || reject 'digest mismatch: the body differs from the signed one'

# Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
find_key() {
    [[ -f "$STATE/keys.json" ]] &&
        jq --exit-status --arg kid "$key_id" '.keys[] | select(.kty == "RSA" and .kid == $kid)' "$STATE/keys.json" > "$work/jwk"
}
if ! find_key; then
    if [[ -z "$(find "$STATE" -name fetched -newermt '-30 seconds')" ]]; then
        touch "$STATE/fetched"
        if ! curl --silent --fail --max-time 10 --output "$work/keys.json" "$BASE_URL/.well-known/jwks.json"; then
            echo 'failed to fetch keys' >&2
            respond '503 Service Unavailable'
            exit 0
        fi
        mv "$work/keys.json" "$STATE/keys.json"
    fi
    find_key || reject 'unknown key id'
fi
use_mode="$(jq --raw-output '.use_mode // empty' "$work/jwk")"
[[ -z "$use_mode" || ("$use_mode" == sandbox && "${ACCEPT_SANDBOX:-}" == 1) ]] ||
    reject "the key is for $use_mode checks only"

# Converts the base64url modulus and exponent of the JWK to ASN.1 for OpenSSL.
decode_to_hex() {
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
n = INTEGER:0x$(decode_to_hex n)
e = INTEGER:0x$(decode_to_hex e)
ASN1
openssl asn1parse -genconf "$work/asn1" -noout -out "$work/key.der"
openssl pkey -pubin -inform DER -in "$work/key.der" -out "$work/key.pem"

# The signed text, without a trailing newline.
printf '(request-target): %s %s\nhost: %s\ndate: %s\nx-service-callback: %s\ndigest: %s' \
    "${method,,}" "$target" "$host" "$date" "$source" "$digest" > "$work/signed"
openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/signature" "$work/signed" > /dev/null 2>&1 ||
    reject 'invalid signature'

at="$(date --date="$date" +%s)" || reject 'invalid date'
skew=$(($(date +%s) - at))
((skew <= max_skew && skew >= -max_skew)) || reject 'the date differs too much from the current time'

# Store the callback before responding with 200: socat may end this script after the response.
id="$(jq --raw-output '.check_id // .verification_id' "$work/body")"
[[ "$id" =~ ^[0-9a-f-]{36}$ ]] || reject 'invalid or missing id'
mv --no-clobber "$work/body" "$STATE/$id.json"
echo "verified: $id $(jq --raw-output '"\(.status) match=\(.match)"' "$STATE/$id.json")" >&2
respond '200 OK'
