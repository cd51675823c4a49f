package main

// Verifies that a callback was sent by Ringtrue. Copy this file into your backend.

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
	// How far the two clocks may be apart. Whoever records a callback can replay it for this long: `check_id` tells.
	maxSkew = 5 * time.Minute
	// Keys change seldom. Without a pause, anybody could make us ask for them with every request.
	pauseBetweenFetches = 30 * time.Second
)

// Callback is what is posted when a check has ended.
type Callback struct {
	CheckID     string `json:"check_id"`
	Status      string `json:"status"`
	Match       *bool  `json:"match"`
	PhoneNumber string `json:"phone_number"`
	ErrorCode   string `json:"error_code"`
	ReferenceID string `json:"reference_id"`
}

// Refused says why a request is not to be trusted.
type Refused string

func (r Refused) Error() string { return string(r) }

// KeySet holds the public keys at `/.well-known/jwks.json`. They are fetched again when a callback names one that is
// not known.
type KeySet struct {
	URL string
	// AcceptSandbox is for tests: sandbox checks prove nothing about a number, and anybody's sandbox project can name
	// your URL.
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
	if s.keys[keyID].key == nil && time.Since(s.fetchedAt) > pauseBetweenFetches {
		s.fetchedAt = time.Now()
		if err := s.fetch(); err != nil {
			return nil, err
		}
	}
	found := s.keys[keyID]
	if found.key == nil {
		return nil, Refused("the key is not in the key set")
	}
	if found.useMode != "" && !(found.useMode == "sandbox" && s.AcceptSandbox) {
		return nil, Refused("the key is for " + found.useMode + " checks only")
	}
	return found.key, nil
}

func (s *KeySet) fetch() error {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get(s.URL)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var set struct {
		Keys []struct {
			Kty, Kid, N, E string
			UseMode        string `json:"use_mode"`
		}
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
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

// Verify answers what is in the callback. The error is a Refused if the request is not to be trusted. The body is the
// bytes as they came: JSON that was parsed and written again is not the same. A valid callback can still be about
// somebody else's check: refuse a `check_id` that you did not create.
func Verify(request *http.Request, body []byte, keySet *KeySet) (*Callback, error) {
	// Go takes `Host` out of the headers, and refuses a request that has two.
	covered := map[string]string{"host": request.Host}
	for _, name := range []string{"date", "x-service-callback", "digest", "authorization"} {
		values := request.Header.Values(name)
		if len(values) != 1 {
			return nil, Refused(fmt.Sprintf("the header %s is there %d times", name, len(values)))
		}
		covered[name] = values[0]
	}
	parameters, err := readAuthorization(covered["authorization"])
	if err != nil {
		return nil, err
	}
	if parameters["algorithm"] != "rsa-sha256" {
		return nil, Refused("another algorithm than rsa-sha256")
	}
	if parameters["headers"] != components {
		return nil, Refused("the signature does not cover what it must")
	}
	hash := sha256.Sum256(body)
	if covered["digest"] != "SHA-256="+base64.StdEncoding.EncodeToString(hash[:]) {
		return nil, Refused("the body is not the one that was signed")
	}
	key, err := keySet.find(parameters["keyId"])
	if err != nil {
		return nil, err
	}
	// RequestURI is the path with its query as in the request line; URL is not.
	lines := []string{"(request-target): " + strings.ToLower(request.Method) + " " + request.RequestURI}
	for _, name := range []string{"host", "date", "x-service-callback", "digest"} {
		lines = append(lines, name+": "+covered[name])
	}
	signed := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	signature, err := base64.StdEncoding.Strict().DecodeString(parameters["signature"])
	if err != nil || rsa.VerifyPKCS1v15(key, crypto.SHA256, signed[:], signature) != nil {
		return nil, Refused("the signature does not fit the request")
	}
	date, err := http.ParseTime(covered["date"])
	if skew := time.Since(date); err != nil || skew > maxSkew || skew < -maxSkew {
		return nil, Refused("the date is too far from now")
	}
	var callback Callback
	return &callback, json.Unmarshal(body, &callback)
}

var parameter = regexp.MustCompile(`([A-Za-z]+)="([^"\\]*)"`)

// `Signature name="value",…` with each of the four parameters once.
func readAuthorization(value string) (map[string]string, error) {
	parameters := map[string]string{}
	var written []string
	for _, found := range parameter.FindAllStringSubmatch(value, -1) {
		parameters[found[1]] = found[2]
		written = append(written, found[0])
	}
	complete := len(written) == 4 && len(parameters) == 4
	for _, name := range []string{"keyId", "algorithm", "headers", "signature"} {
		_, there := parameters[name]
		complete = complete && there
	}
	if !complete || "Signature "+strings.Join(written, ",") != value {
		return nil, Refused("the Authorization header is not a signature of Ringtrue's")
	}
	return parameters, nil
}
