package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringtrue.example/ringtrue"
)

// counter is a transport that counts requests by path, and remembers the tokens sent.
type counter struct {
	mutex  sync.Mutex
	counts map[string]int
	token  string
}

func (c *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	c.mutex.Lock()
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	c.counts[request.URL.Path]++
	if _, token, isBearer := strings.Cut(request.Header.Get("Authorization"), "Bearer "); isBearer {
		c.token = token
	}
	c.mutex.Unlock()
	return http.DefaultTransport.RoundTrip(request)
}

func (c *counter) count(path string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.counts[path]
}

func (c *counter) lastToken() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.token
}

func (c *counter) option() ringtrue.Option {
	return ringtrue.WithHTTPClient(&http.Client{Transport: c})
}

const tokenPath = "/oauth2/token"

func TestConcurrentCallsShareOneToken(t *testing.T) {
	var requests counter
	client := shared.client(t, requests.option())
	var group sync.WaitGroup
	errs := make(chan error, 50)
	for n := 0; n < 50; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			_, err := client.SimSwap.Page(background, ringtrue.ListOptions{})
			errs <- err
		}()
	}
	group.Wait()
	for n := 0; n < 50; n++ {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "token requests", requests.count(tokenPath), 1)
	ok(client.Verifications.Page(background, ringtrue.ListOptions{}))(t)
	equal(t, "token requests with another scope", requests.count(tokenPath), 2)
}

func revoke(t *testing.T, token string) {
	t.Helper()
	form := url.Values{"token": {token}}
	request := ok(http.NewRequest(http.MethodPost, shared.BaseURL+"/oauth2/revoke", strings.NewReader(form.Encode())))(t)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.SetBasicAuth(shared.Project.ClientID, shared.Project.ClientSecret)
	response := ok(http.DefaultClient.Do(request))(t)
	response.Body.Close()
	equal(t, "status of the revocation", response.StatusCode, http.StatusOK)
}

func TestRevokedTokenIsRenewedOnce(t *testing.T) {
	var requests counter
	client := shared.client(t, requests.option())
	ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	first := requests.lastToken()
	revoke(t, first)
	ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	equal(t, "token requests", requests.count(tokenPath), 2)
	equal(t, "calls", requests.count("/v1/sim-swap-checks"), 3)
	if requests.lastToken() == first {
		t.Error("the token is the same")
	}
}

func TestTokenIsRenewedBeforeItExpires(t *testing.T) {
	var requests counter
	var elapsed atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(elapsed.Load())) }
	client := shared.client(t, requests.option(), ringtrue.WithClock(clock))
	read := func() { ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t) }
	read()
	elapsed.Store(int64(58 * time.Minute))
	read()
	equal(t, "token requests long before the end", requests.count(tokenPath), 1)
	elapsed.Store(int64(59*time.Minute + 30*time.Second))
	read()
	first := requests.lastToken()
	waitFor(t, "the token is renewed in the background", func() bool {
		read()
		return requests.lastToken() != first
	})
	equal(t, "token requests shortly before the end", requests.count(tokenPath), 2)
	elapsed.Store(int64(3 * time.Hour))
	read()
	equal(t, "token requests after the end", requests.count(tokenPath), 3)
}

func TestWrongSecretIsReported(t *testing.T) {
	client := newClient(t, shared.BaseURL, credential{ClientID: shared.Project.ClientID, ClientSecret: "wrong-secret"})
	_, err := client.SimSwap.Page(background, ringtrue.ListOptions{})
	failure := as[*ringtrue.APIError](t, err)
	equal(t, "status", failure.Status, 401)
	equal(t, "is ErrAuthentication", errors.Is(err, ringtrue.ErrAuthentication), true)
	if strings.Contains(err.Error(), "wrong-secret") || failure.ErrorCode == "" {
		t.Errorf("unexpected error: %v", err)
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	client := newClient(t, "http://127.0.0.1:1", credential{ClientID: "id", ClientSecret: "top-secret"})
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		for _, value := range []any{client, *client, client.Verifications, *client.Verifications, client.Callbacks, client.Management} {
			if text := fmt.Sprintf(format, value); strings.Contains(text, "top-secret") {
				t.Errorf("%s of %T prints the secret: %s", format, value, text)
			}
		}
	}
}

func TestMissingSettingsAreNamed(t *testing.T) {
	variables := []string{"RINGTRUE_URL", "RINGTRUE_CLIENT_ID", "RINGTRUE_CLIENT_SECRET"}
	for _, name := range variables {
		t.Setenv(name, "")
	}
	for index, value := range []string{shared.BaseURL, shared.Project.ClientID, shared.Project.ClientSecret} {
		_, err := ringtrue.New()
		if as[*ringtrue.ConfigError](t, err); !strings.Contains(err.Error(), variables[index]) {
			t.Errorf("%v does not name %s", err, variables[index])
		}
		t.Setenv(variables[index], value)
	}
	client := ok(ringtrue.New())(t)
	ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	for _, invalid := range []ringtrue.Option{
		ringtrue.WithURL("ringtrue"), ringtrue.WithURL("ftp://host"), ringtrue.WithURL("http://user:pass@host"),
		ringtrue.WithURL("http://host?x"), ringtrue.WithPublicURL("shop"), ringtrue.WithTimeout(0), ringtrue.WithMaxRetries(-1),
		ringtrue.WithURL("http://host?"), ringtrue.WithHTTPClient(nil), ringtrue.WithClock(nil),
	} {
		_, err := ringtrue.New(invalid)
		as[*ringtrue.ConfigError](t, err)
	}
	receiver := ok(ringtrue.New(ringtrue.WithCredential("", ""), ringtrue.WithoutCredential()))(t)
	_, err := receiver.SimSwap.Page(background, ringtrue.ListOptions{})
	as[*ringtrue.ConfigError](t, err)
}

func TestRateLimitIsHonoured(t *testing.T) {
	s := startService(t, "RINGTRUE_RATE_LIMITS__READ=1")
	var requests counter
	client := s.client(t, requests.option(), ringtrue.WithMaxRetries(5))
	for n := 0; n < 3; n++ {
		ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	}
	if requests.count("/v1/sim-swap-checks") <= 3 {
		t.Error("no request was limited")
	}
	impatient := s.client(t, ringtrue.WithMaxRetries(0))
	waitFor(t, "a request is limited", func() bool {
		_, err := impatient.SimSwap.Page(background, ringtrue.ListOptions{})
		if err == nil {
			return false
		}
		failure := as[*ringtrue.APIError](t, err)
		return errors.Is(err, ringtrue.ErrRateLimited) && failure.RetryAfter >= time.Second
	})
}

func TestServiceIsRestartedDuringACall(t *testing.T) {
	s := &service{data: t.TempDir()}
	if err := s.start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.command.Process.Kill()
		_ = s.command.Wait()
	})
	address := strings.TrimPrefix(s.BaseURL, "http://")
	restarted := make(chan error, 1)
	var creates atomic.Int64
	backend := ok(url.Parse(s.BaseURL))(t)
	proxy := httputil.NewSingleHostReverseProxy(backend)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/sim-swap-checks" && creates.Add(1) == 1 {
			// The service does its work, is killed, and the client never sees the response.
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			_ = s.command.Process.Kill()
			_ = s.command.Wait()
			go func() { restarted <- s.start(address) }()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	defer front.Close()
	client := newClient(t, front.URL, s.Project, ringtrue.WithMaxRetries(50))
	ctx, cancel := context.WithTimeout(background, deadline)
	defer cancel()
	check := ok(client.SimSwap.Create(ctx, ringtrue.SimSwapCheckInput{PhoneNumber: number("00")}))(t)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	all := ok(client.SimSwap.List(ctx, ringtrue.ListOptions{}).All())(t)
	equal(t, "checks", len(all), 1)
	equal(t, "check", all[0].CheckID, check.CheckID)
}
