package main

// Verifies callbacks of Ringtrue. Copy this file into your backend.

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	components = "(request-target) host date x-service-callback digest"
	// Maximum clock skew. A recorded callback can be replayed for this long; detect replays by the id.
	maxSkew = 5 * time.Minute
	// Keys change rarely. Without an interval, any request with an unknown key id would cause a fetch.
	minFetchInterval = 30 * time.Second
)

// Callback is the body that is posted when a check or verification is concluded.
type Callback struct {
	CheckID        string `json:"check_id"`
	VerificationID string `json:"verification_id"`
	Status         string `json:"status"`
	Match          *bool  `json:"match"`
	PhoneNumber    string `json:"phone_number"`
	ErrorCode      string `json:"error_code"`
	ReferenceID    string `json:"reference_id"`
}

// ID is that of the check or verification.
func (c *Callback) ID() string { return c.CheckID + c.VerificationID }

// InvalidCallback is the reason why verification failed.
type InvalidCallback string

func (reason InvalidCallback) Error() string { return string(reason) }

// KeySet holds the public keys at `/.well-known/jwks.json`. They are fetched again when a callback has an unknown key
// id.
type KeySet struct {
	URL string
	// AcceptSandbox is for tests only: sandbox checks do not verify a number, and any sandbox project can use your
	// URL.
	AcceptSandbox bool
	lock          sync.Mutex
	keys          map[string]publicKey
	fetchedAt     time.Time
}

type publicKey struct {
	key     *rsa.PublicKey
	useMode string
}

func (s *KeySet) find(keyID string) (*rsa.PublicKey, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.keys[keyID].key == nil && time.Since(s.fetchedAt) > minFetchInterval {
		s.fetchedAt = time.Now()
		if err := s.fetch(); err != nil {
			return nil, err
		}
	}
	found := s.keys[keyID]
	if found.key == nil {
		return nil, InvalidCallback("unknown key id")
	}
	if found.useMode != "" && !(found.useMode == "sandbox" && s.AcceptSandbox) {
		return nil, InvalidCallback("the key is for " + found.useMode + " checks only")
	}
	return found.key, nil
}

func (s *KeySet) fetch() error {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(s.URL)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var set struct {
		Keys []struct {
			Kty, Kid, N, E string
			UseMode        string `json:"use_mode"`
		}
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&set); err != nil {
		return err
	}
	s.keys = map[string]publicKey{}
	for _, jwk := range set.Keys {
		n, errN := base64.RawURLEncoding.DecodeString(jwk.N)
		e, errE := base64.RawURLEncoding.DecodeString(jwk.E)
		if jwk.Kty == "RSA" && errN == nil && errE == nil {
			exponent := new(big.Int).SetBytes(e)
			key := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}
			s.keys[jwk.Kid] = publicKey{key, jwk.UseMode}
		}
	}
	return nil
}

// Verify returns the verified callback. The error is an InvalidCallback if verification failed. The body is the raw
// bytes as received: parsed and re-encoded JSON does not verify. A valid callback can belong to a check of another
// client: reject a `check_id` that you did not create.
func Verify(request *http.Request, body []byte, keySet *KeySet) (*Callback, error) {
	// net/http removes `Host` from the headers, and rejects requests with two of them.
	covered := map[string]string{"host": request.Host}
	for _, name := range []string{"date", "x-service-callback", "digest", "authorization"} {
		values := request.Header.Values(name)
		if len(values) != 1 {
			return nil, InvalidCallback(fmt.Sprintf("expected one %s header, found %d", name, len(values)))
		}
		covered[name] = values[0]
	}
	parameters, err := parseAuthorization(covered["authorization"])
	if err != nil {
		return nil, err
	}
	if parameters["algorithm"] != "rsa-sha256" {
		return nil, InvalidCallback("unsupported algorithm; expected rsa-sha256")
	}
	if parameters["headers"] != components {
		return nil, InvalidCallback("the signature does not cover the required headers")
	}
	hash := sha256.Sum256(body)
	if covered["digest"] != "SHA-256="+base64.StdEncoding.EncodeToString(hash[:]) {
		return nil, InvalidCallback("digest mismatch: the body differs from the signed one")
	}
	key, err := keySet.find(parameters["keyId"])
	if err != nil {
		return nil, err
	}
	// RequestURI is the unmodified path and query of the request line; URL is not.
	lines := []string{"(request-target): " + strings.ToLower(request.Method) + " " + request.RequestURI}
	for _, name := range []string{"host", "date", "x-service-callback", "digest"} {
		lines = append(lines, name+": "+covered[name])
	}
	signed := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	signature, err := base64.StdEncoding.Strict().DecodeString(parameters["signature"])
	if err != nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, signed[:], signature) != nil {
		return nil, InvalidCallback("invalid signature")
	}
	date, err := http.ParseTime(covered["date"])
	if skew := time.Since(date); err != nil || skew > maxSkew || skew < -maxSkew {
		return nil, InvalidCallback("the date differs too much from the current time")
	}
	var callback Callback
	return &callback, json.Unmarshal(body, &callback)
}

var parameter = regexp.MustCompile(`([A-Za-z]+)="([^"\\]*)"`)

// parseAuthorization parses `Signature name="value",…`, with each of the four parameters exactly once.
func parseAuthorization(value string) (map[string]string, error) {
	parameters := map[string]string{}
	var written []string
	for _, found := range parameter.FindAllStringSubmatch(value, -1) {
		parameters[found[1]] = found[2]
		written = append(written, found[0])
	}
	complete := len(written) == 4 && len(parameters) == 4
	for _, name := range []string{"keyId", "algorithm", "headers", "signature"} {
		_, found := parameters[name]
		complete = complete && found
	}
	if !complete || "Signature "+strings.Join(written, ",") != value {
		return nil, InvalidCallback("malformed Authorization header")
	}
	return parameters, nil
}
