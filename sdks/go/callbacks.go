package ringtrue

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// maxCallbackSkew is the largest difference between a callback's date and the clock. A recorded callback can be
	// replayed for this long.
	maxCallbackSkew = 5 * time.Minute
	// maxCallbackBytes is far above the size of any callback.
	maxCallbackBytes = 64 << 10
	// signedComponents is the only list that a signature may cover.
	signedComponents = "(request-target) host date x-service-callback digest"
)

// Kinds of an [Event]. More may appear.
const (
	EventVerification = "verification"
	EventReverseSms   = "reverse_sms"
	EventSecureSna    = "secure_sna"
	EventDiscovery    = "discovery"
)

// Reasons of a [CallbackError].
const (
	// CallbackHeaderInvalid: a required header is missing, repeated or malformed.
	CallbackHeaderInvalid = "header_invalid"
	// CallbackAlgorithmUnsupported: the signature is not `rsa-sha256`, or does not cover exactly the required headers.
	CallbackAlgorithmUnsupported = "algorithm_unsupported"
	// CallbackDigestMismatch: the body is not the signed one.
	CallbackDigestMismatch = "digest_mismatch"
	// CallbackKeyUnknown: the deployment does not publish the key.
	CallbackKeyUnknown = "key_unknown"
	// CallbackKeyRefused: the key is for sandbox callbacks only.
	CallbackKeyRefused = "key_refused"
	// CallbackSignatureInvalid: the signature does not match. If callbacks are genuine and this occurs, a proxy may have
	// changed the request; see [WithPublicURL].
	CallbackSignatureInvalid = "signature_invalid"
	// CallbackDateOutsideWindow: the date differs from the clock by more than five minutes.
	CallbackDateOutsideWindow = "date_outside_window"
	// CallbackBodyInvalid: the body has a valid signature, but cannot be read.
	CallbackBodyInvalid = "body_invalid"
	// CallbackBodyTooLarge: the body is larger than 64 KiB.
	CallbackBodyTooLarge = "body_too_large"
	// CallbackKeysUnavailable: the keys cannot be fetched. Ringtrue tries the callback again.
	CallbackKeysUnavailable = "keys_unavailable"
)

// CallbackError is a callback that cannot be accepted.
type CallbackError struct {
	// Reason is the reason for programs, such as [CallbackSignatureInvalid].
	Reason string
	// Detail is the reason for people.
	Detail string
	// Status is the HTTP status to respond with.
	Status int
	err    error
}

func (e *CallbackError) Error() string { return "ringtrue: callback rejected: " + e.Detail }

// Unwrap returns the cause, if there is one, such as a [ConnectionError].
func (e *CallbackError) Unwrap() error  { return e.err }
func (e *CallbackError) ringtrueError() {}

func rejectCallback(reason, format string, arguments ...any) error {
	return &CallbackError{Reason: reason, Detail: fmt.Sprintf(format, arguments...), Status: http.StatusUnauthorized}
}

// Event is a verified callback: a check or verification has ended.
type Event struct {
	// Kind is the callback's product, such as [EventVerification].
	Kind string
	// ID is the verification's or check's id. Reject an id that you did not create: the signature proves that the
	// deployment sent the callback, not that the check is yours.
	ID string
	// Attempt counts the deliveries of this callback from 1. It is not signed. 0 if unknown.
	Attempt int
	// IsSandbox: the key is for sandbox callbacks, which prove nothing about a number.
	IsSandbox bool
	// Result is a *VerificationCallback, *ReverseSmsCallback, *SecureSnaCallback or *DiscoveryCallback, or nil if Kind is
	// newer than this library.
	Result any
	// Body is the callback's JSON.
	Body json.RawMessage
}

// Callbacks verifies callbacks. It fetches the deployment's public keys and caches them.
type Callbacks struct {
	core *core
	keys keySet
}

func newCallbacks(c *core) *Callbacks { return &Callbacks{core: c} }

// CallbackRequest is a request as it was received, for servers other than [net/http].
type CallbackRequest struct {
	// Method is the HTTP method.
	Method string
	// Target is the path with the query exactly as in the request line, not decoded.
	Target string
	// Host is the Host header. [WithPublicURL] takes precedence.
	Host string
	// Header has the other headers.
	Header http.Header
	// Body has the bytes of the body. Parsed and written again, they do not verify.
	Body []byte
}

// Verify verifies a request of [net/http] and reads its body. The error is a [CallbackError], with the status to
// respond with. [CallbackHandler] does all of this.
func (c *Callbacks) Verify(request *http.Request) (*Event, error) {
	body, err := io.ReadAll(io.LimitReader(request.Body, maxCallbackBytes+1))
	if err != nil {
		return nil, &CallbackError{CallbackBodyInvalid, "the body cannot be read", http.StatusBadRequest, err}
	}
	return c.VerifyRaw(request.Context(), CallbackRequest{
		Method: request.Method,
		// URL is decoded and may be changed by routers.
		Target: request.RequestURI,
		Host:   request.Host,
		Header: request.Header,
		Body:   body,
	})
}

// VerifyRaw verifies a request as it was received. The error is a [CallbackError].
func (c *Callbacks) VerifyRaw(ctx context.Context, request CallbackRequest) (*Event, error) {
	if len(request.Body) > maxCallbackBytes {
		detail := fmt.Sprintf("the body is larger than %d bytes", maxCallbackBytes)
		return nil, &CallbackError{CallbackBodyTooLarge, detail, http.StatusRequestEntityTooLarge, nil}
	}
	covered := map[string]string{}
	for _, name := range []string{"date", "x-service-callback", "digest", "authorization"} {
		values := request.Header.Values(name)
		if len(values) != 1 {
			return nil, rejectCallback(CallbackHeaderInvalid, "expected one %s header, found %d", name, len(values))
		}
		covered[name] = values[0]
	}
	signature, err := parseSignature(covered["authorization"])
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(request.Body)
	digest := "SHA-256=" + base64.StdEncoding.EncodeToString(hash[:])
	if subtle.ConstantTimeCompare([]byte(digest), []byte(covered["digest"])) != 1 {
		return nil, rejectCallback(CallbackDigestMismatch, "digest mismatch: the body differs from the signed one")
	}
	// Before the key is looked up, so that old recordings cause no fetch.
	date, err := http.ParseTime(covered["date"])
	if skew := c.core.now().Sub(date); err != nil || skew > maxCallbackSkew || skew < -maxCallbackSkew {
		return nil, rejectCallback(CallbackDateOutsideWindow, "the date differs too much from the current time")
	}
	key, err := c.findKey(ctx, signature.keyID)
	if err != nil {
		return nil, err
	}
	host, target := request.Host, request.Target
	if public := c.core.publicURL; public != nil {
		host, target = publicHost(public), strings.TrimSuffix(public.EscapedPath(), "/")+target
	}
	signed := sha256.Sum256([]byte(strings.Join([]string{
		"(request-target): " + strings.ToLower(request.Method) + " " + target,
		"host: " + host,
		"date: " + covered["date"],
		"x-service-callback: " + covered["x-service-callback"],
		"digest: " + covered["digest"],
	}, "\n")))
	if rsa.VerifyPKCS1v15(key.key, crypto.SHA256, signed[:], signature.signature) != nil {
		return nil, rejectCallback(CallbackSignatureInvalid, "invalid signature")
	}
	event, err := readEvent(covered["x-service-callback"], request.Body)
	if err != nil {
		return nil, &CallbackError{CallbackBodyInvalid, "the body is not a callback", http.StatusBadRequest, err}
	}
	event.IsSandbox = key.isSandbox()
	if attempt, err := strconv.Atoi(request.Header.Get("X-Service-Callback-Attempt")); err == nil && attempt > 0 {
		event.Attempt = attempt
	}
	return event, nil
}

// findKey returns a key that may sign callbacks for this client.
func (c *Callbacks) findKey(ctx context.Context, keyID string) (*publicKey, error) {
	key, err := c.keys.find(ctx, c.core, keyID)
	switch {
	case err != nil:
		return nil, &CallbackError{
			CallbackKeysUnavailable, "the keys cannot be fetched", http.StatusServiceUnavailable, err,
		}
	case key == nil:
		return nil, rejectCallback(CallbackKeyUnknown, "unknown key id")
	case key.useMode != "" && !(key.isSandbox() && c.core.allowSandbox):
		return nil, rejectCallback(CallbackKeyRefused, "the key is for %s checks only", key.useMode)
	}
	return key, nil
}

// publicHost is the Host header of a request to a URL: without the scheme's default port.
func publicHost(public *url.URL) string {
	defaultPort := map[string]string{"http": "80", "https": "443"}[public.Scheme]
	host := strings.ToLower(public.Host)
	if port := public.Port(); port != "" && port == defaultPort {
		return strings.TrimSuffix(host, ":"+port)
	}
	return host
}

func readEvent(kind string, body []byte) (*Event, error) {
	var ids struct {
		CheckID        string `json:"check_id"`
		VerificationID string `json:"verification_id"`
	}
	if err := json.Unmarshal(body, &ids); err != nil {
		return nil, errors.New("the body is not a JSON object")
	}
	event := &Event{Kind: kind, ID: ids.CheckID, Body: body}
	switch kind {
	case EventVerification:
		event.ID, event.Result = ids.VerificationID, &VerificationCallback{}
	case EventReverseSms:
		event.Result = &ReverseSmsCallback{}
	case EventSecureSna:
		event.Result = &SecureSnaCallback{}
	case EventDiscovery:
		event.Result = &DiscoveryCallback{}
	default:
		if event.ID == "" {
			event.ID = ids.VerificationID
		}
	}
	if event.ID == "" {
		return nil, errors.New("the body has no id")
	}
	if event.Result != nil {
		if err := json.Unmarshal(body, event.Result); err != nil {
			return nil, errors.New("the body's members have other types")
		}
	}
	return event, nil
}

// signatureParameters are the parameters of the Authorization header that are not fixed.
type signatureParameters struct {
	keyID     string
	signature []byte
}

var signatureParameter = regexp.MustCompile(`([A-Za-z]+)="([^"\\]*)"`)

// parseSignature parses `Signature name="value",…` with each of the four parameters exactly once and nothing else.
func parseSignature(value string) (*signatureParameters, error) {
	parameters := map[string]string{}
	var written []string
	for _, found := range signatureParameter.FindAllStringSubmatch(value, -1) {
		parameters[found[1]] = found[2]
		written = append(written, found[0])
	}
	isComplete := len(written) == 4 && len(parameters) == 4
	for _, name := range []string{"keyId", "algorithm", "headers", "signature"} {
		_, isPresent := parameters[name]
		isComplete = isComplete && isPresent
	}
	if !isComplete || "Signature "+strings.Join(written, ",") != value {
		return nil, rejectCallback(CallbackHeaderInvalid, "malformed Authorization header")
	}
	if parameters["algorithm"] != "rsa-sha256" {
		return nil, rejectCallback(CallbackAlgorithmUnsupported, "unsupported algorithm; expected rsa-sha256")
	}
	if parameters["headers"] != signedComponents {
		return nil, rejectCallback(CallbackAlgorithmUnsupported, "the signature does not cover the required headers")
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(parameters["signature"])
	if err != nil {
		return nil, rejectCallback(CallbackSignatureInvalid, "invalid signature")
	}
	return &signatureParameters{parameters["keyId"], signature}, nil
}
