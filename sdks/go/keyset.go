package ringtrue

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

const (
	// keyFetchTimeout leaves time to respond: the service waits ten seconds for the response to a callback.
	keyFetchTimeout = 5 * time.Second
	// At most maxKeyFetches fetches begin within keyFetchWindow, so that forged key ids cannot cause a flood.
	maxKeyFetches  = 2
	keyFetchWindow = time.Minute
	// The lifetime of the cached keys if the response does not say, and its limit.
	defaultKeyLife = 5 * time.Minute
	maxKeyLife     = 24 * time.Hour
	minKeyBits     = 2048
)

// keySet caches the deployment's public keys for callbacks.
type keySet struct {
	mutex     sync.Mutex
	keys      map[string]*publicKey
	expiresAt time.Time
	// fetchTimes are the begins of the last fetches, oldest first.
	fetchTimes []time.Time
	// fetchErr is the error of the last fetch, or nil.
	fetchErr error
	pending  *flight[struct{}]
}

type publicKey struct {
	key     *rsa.PublicKey
	useMode string
}

func (k *publicKey) isSandbox() bool { return k.useMode == ModeSandbox }

// find returns a key, or nil if the deployment does not publish it. It fetches the keys if they are outdated or do not
// contain the key. If the fetch fails, keys that are known stay valid.
func (s *keySet) find(ctx context.Context, c *core, keyID string) (*publicKey, error) {
	s.mutex.Lock()
	now := c.now()
	if key := s.keys[keyID]; key != nil && now.Before(s.expiresAt) {
		s.mutex.Unlock()
		return key, nil
	}
	if s.pending == nil && s.mayFetch(now) {
		s.fetchTimes = append(s.fetchTimes, now)
		s.pending = startFlight(func(ctx context.Context) (struct{}, error) { return struct{}{}, s.fetch(ctx, c) })
	}
	pending := s.pending
	s.mutex.Unlock()
	if pending != nil {
		if _, err := pending.wait(ctx); ctx.Err() != nil {
			return nil, err
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := s.keys[keyID]
	if key == nil && s.fetchErr != nil {
		return nil, s.fetchErr
	}
	return key, nil
}

// mayFetch forgets fetches that are long ago, and reports whether another one may begin.
func (s *keySet) mayFetch(now time.Time) bool {
	recent := s.fetchTimes[:0]
	for _, at := range s.fetchTimes {
		if age := now.Sub(at); age >= 0 && age < keyFetchWindow {
			recent = append(recent, at)
		}
	}
	s.fetchTimes = recent
	return len(recent) < maxKeyFetches
}

func (s *keySet) fetch(ctx context.Context, c *core) error {
	keys, life, err := c.requestKeys(ctx)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.pending, s.fetchErr = nil, err
	if err == nil {
		s.keys, s.expiresAt = keys, c.now().Add(life)
	}
	return err
}

// requestKeys makes one attempt: the service sends a callback again if it fails.
func (c *core) requestKeys(ctx context.Context) (map[string]*publicKey, time.Duration, error) {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {c.userAgent}}
	timeout := keyFetchTimeout
	if c.timeout < timeout {
		timeout = c.timeout
	}
	response, err := c.attempt(ctx, timeout, http.MethodGet, c.baseURL+"/.well-known/jwks.json", header, nil, nil)
	if err != nil {
		return nil, 0, err
	}
	if response.status != http.StatusOK {
		return nil, 0, newAPIError(response.status, response.header, response.body, c.now())
	}
	var set struct {
		Keys []struct {
			Kty     string `json:"kty"`
			Kid     string `json:"kid"`
			Use     string `json:"use"`
			Alg     string `json:"alg"`
			N       string `json:"n"`
			E       string `json:"e"`
			UseMode string `json:"use_mode"`
		} `json:"keys"`
	}
	if err := json.Unmarshal(response.body, &set); err != nil {
		err := errors.New("the key set is not the expected JSON")
		return nil, 0, &ResponseError{RequestID: response.header.Get("X-Request-Id"), err: err}
	}
	keys := map[string]*publicKey{}
	for _, jwk := range set.Keys {
		if jwk.Kty != "RSA" || jwk.Alg != "RS256" || jwk.Use != "sig" || jwk.Kid == "" {
			continue
		}
		if key := newRSAKey(jwk.N, jwk.E); key != nil {
			keys[jwk.Kid] = &publicKey{key, jwk.UseMode}
		}
	}
	return keys, keyLife(response.header.Get("Cache-Control")), nil
}

// newRSAKey returns nil if the key is malformed or too weak.
func newRSAKey(modulus, exponent string) *rsa.PublicKey {
	n, errN := base64.RawURLEncoding.DecodeString(modulus)
	e, errE := base64.RawURLEncoding.DecodeString(exponent)
	if errN != nil || errE != nil {
		return nil
	}
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(n)}
	public := new(big.Int).SetBytes(e)
	if key.N.BitLen() < minKeyBits || public.BitLen() > 31 || public.Int64() < 3 || public.Bit(0) == 0 {
		return nil
	}
	key.E = int(public.Int64())
	return key
}

var maxAge = regexp.MustCompile(`(?i)(?:^|[,\s])max-age=([0-9]{1,9})(?:[,\s]|$)`)

// keyLife reads the max-age of a Cache-Control header.
func keyLife(cacheControl string) time.Duration {
	found := maxAge.FindStringSubmatch(cacheControl)
	if found == nil {
		return defaultKeyLife
	}
	seconds, err := strconv.Atoi(found[1])
	if err != nil || time.Duration(seconds)*time.Second > maxKeyLife {
		return maxKeyLife
	}
	return time.Duration(seconds) * time.Second
}
