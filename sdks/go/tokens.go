package ringtrue

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Scope is the scope of an access token.
type Scope = string

// Scopes of the API.
const (
	ScopeManagement   Scope = "management"
	ScopeReverseSms   Scope = "reverse_sms"
	ScopeSecureSna    Scope = "secure_sna"
	ScopeDiscovery    Scope = "discovery"
	ScopeSimSwap      Scope = "sim_swap"
	ScopeEligibility  Scope = "eligibility"
	ScopeVerification Scope = "verification"
)

// maxRenewalMargin is how long before its end a token is renewed, at most. Short-lived tokens are renewed in the last
// tenth of their life.
const maxRenewalMargin = time.Minute

// tokenCache holds one access token for each scope. Concurrent calls share one request for a token.
type tokenCache struct {
	mutex   sync.Mutex
	entries map[Scope]*tokenEntry
}

type tokenEntry struct {
	token              string
	renewAt, expiresAt time.Time
	// pending is the request for the next token, or nil.
	pending *flight[string]
}

// flight is work that several callers wait for.
type flight[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// startFlight runs work that no single caller can cancel, because others wait for it, too.
func startFlight[T any](work func(context.Context) (T, error)) *flight[T] {
	f := &flight[T]{done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.value, f.err = work(context.Background())
	}()
	return f
}

func (f *flight[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var none T
		return none, &ConnectionError{Err: ctx.Err()}
	}
}

// get returns a valid token. Shortly before its end it still returns it, and renews it in the background.
func (t *tokenCache) get(ctx context.Context, c *core, scope Scope) (string, error) {
	if c.authorize == nil {
		return "", &ConfigError{"the client has no credential: it was created with WithoutCredential"}
	}
	// A cached token must not outlive the caller's wish to stop.
	if err := ctx.Err(); err != nil {
		return "", &ConnectionError{Err: err}
	}
	t.mutex.Lock()
	if t.entries == nil {
		t.entries = map[Scope]*tokenEntry{}
	}
	entry := t.entries[scope]
	if entry == nil {
		entry = &tokenEntry{}
		t.entries[scope] = entry
	}
	now := c.now()
	if now.Before(entry.renewAt) {
		defer t.mutex.Unlock()
		return entry.token, nil
	}
	if entry.pending == nil {
		entry.pending = startFlight(func(ctx context.Context) (string, error) { return t.renew(ctx, c, scope, entry) })
	}
	pending, token, isValid := entry.pending, entry.token, now.Before(entry.expiresAt)
	t.mutex.Unlock()
	if isValid {
		return token, nil
	}
	return pending.wait(ctx)
}

// discard forgets a token that was rejected, unless it has been replaced already.
func (t *tokenCache) discard(scope Scope, token string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if entry := t.entries[scope]; entry.token == token {
		entry.token, entry.renewAt, entry.expiresAt = "", time.Time{}, time.Time{}
	}
}

func (t *tokenCache) renew(ctx context.Context, c *core, scope Scope, entry *tokenEntry) (string, error) {
	requestedAt := c.now()
	token, life, err := c.requestToken(ctx, scope)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	entry.pending = nil
	if err != nil {
		return "", err
	}
	margin := life / 10
	if margin > maxRenewalMargin {
		margin = maxRenewalMargin
	}
	entry.token, entry.renewAt, entry.expiresAt = token, requestedAt.Add(life-margin), requestedAt.Add(life)
	return token, nil
}

// requestToken calls the token endpoint (RFC 6749, section 4.4).
func (c *core) requestToken(ctx context.Context, scope Scope) (string, time.Duration, error) {
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}.Encode()
	header := http.Header{
		"Accept":       {"application/problem+json, application/json"},
		"Content-Type": {"application/x-www-form-urlencoded"},
		"User-Agent":   {c.userAgent},
	}
	response, err := c.retry(ctx, true, func(ctx context.Context) (*rawResponse, error) {
		return c.attempt(ctx, c.timeout, http.MethodPost, c.baseURL+"/oauth2/token", header, []byte(form), c.authorize)
	})
	if err != nil {
		return "", 0, err
	}
	var granted struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if err := json.Unmarshal(response.body, &granted); err != nil || granted.AccessToken == "" || granted.ExpiresIn < 1 {
		// The cause would quote the body, which may contain the token.
		err := errors.New("the token response is not the expected JSON")
		return "", 0, &ResponseError{RequestID: response.header.Get("X-Request-Id"), err: err}
	}
	return granted.AccessToken, time.Duration(granted.ExpiresIn) * time.Second, nil
}
