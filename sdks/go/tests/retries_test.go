package tests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"ringtrue.example/ringtrue"
)

// stub is a server that behaves as the real one cannot be made to. Each response of the script is used once; the last
// one repeats.
type stub struct {
	*httptest.Server
	mutex  sync.Mutex
	script []http.HandlerFunc
	// requests are the calls without the token requests.
	requests []*http.Request
}

func startStub(t *testing.T, script ...http.HandlerFunc) *stub {
	s := &stub{script: script}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == tokenPath {
			fmt.Fprint(w, `{"access_token":"t0ken","token_type":"bearer","expires_in":3600,"scope":"x"}`)
			return
		}
		s.mutex.Lock()
		s.requests = append(s.requests, r)
		respond := s.script[0]
		if len(s.script) > 1 {
			s.script = s.script[1:]
		}
		s.mutex.Unlock()
		respond(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stub) client(t *testing.T, options ...ringtrue.Option) *ringtrue.Client {
	return newClient(t, s.URL, credential{ClientID: "id", ClientSecret: "secret"}, options...)
}

func (s *stub) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.requests)
}

func status(code int, headers ...string) http.HandlerFunc {
	return problem(code, "", headers...)
}

func problem(code int, errorCode string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for at := 0; at < len(headers); at += 2 {
			w.Header().Set(headers[at], headers[at+1])
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"title":"A title","detail":"A detail","status":%d,"error_code":%q}`, code, errorCode)
	}
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Project-Mode", "live")
		fmt.Fprint(w, text)
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func cutInTheBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	fmt.Fprint(w, `{"content":`)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

// silence responds when the client has gone.
func silence(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

const emptyPage = `{"content":[],"page":{"size":10,"number":1,"total_pages":0,"total_elements":0}}`

func TestReadsAndCreatesAreRetried(t *testing.T) {
	failures := map[string]http.HandlerFunc{
		"429":                     problem(429, "too_many_requests", "Retry-After", "1"),
		"503":                     status(503, "Retry-After", "1"),
		"503 without Retry-After": status(503),
		"502":                     status(502),
		"504":                     status(504),
		"409 in progress":         problem(409, "idempotency_in_progress"),
		"cut":                     cut,
		"cut in the body":         cutInTheBody,
	}
	for name, failure := range failures {
		failure := failure
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reads := startStub(t, failure, failure, body(emptyPage))
			ok(reads.client(t).SimSwap.Page(background, ringtrue.ListOptions{}))(t)
			if reads.count() < 3 {
				t.Errorf("only %d requests", reads.count())
			}
			creates := startStub(t, failure, failure, body(`{"check_id":"1"}`))
			ok(creates.client(t).SimSwap.Create(background, ringtrue.SimSwapCheckInput{}))(t)
			keys := map[string]bool{}
			for _, request := range creates.requests {
				keys[request.Header.Get("Idempotency-Key")] = true
			}
			if len(keys) != 1 || keys[""] {
				t.Errorf("unexpected idempotency keys: %v", keys)
			}
		})
	}
}

func TestTimeoutIsRetried(t *testing.T) {
	s := startStub(t, silence, body(emptyPage))
	client := s.client(t, ringtrue.WithTimeout(time.Second))
	ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	if s.count() < 2 {
		t.Errorf("only %d requests", s.count())
	}
	s = startStub(t, silence)
	_, err := s.client(t, ringtrue.WithTimeout(50*time.Millisecond), ringtrue.WithMaxRetries(1)).SimSwap.Get(background, "x")
	failure := as[*ringtrue.ConnectionError](t, err)
	equal(t, "is a timeout", failure.Timeout(), true)
	equal(t, "is not the caller's", errors.Is(err, context.DeadlineExceeded), false)
}

// deadlines is a transport that notes how much time each call has.
type deadlines struct{ left []time.Duration }

func (d *deadlines) RoundTrip(request *http.Request) (*http.Response, error) {
	if at, isLimited := request.Context().Deadline(); isLimited && request.URL.Path != tokenPath {
		d.left = append(d.left, time.Until(at))
	}
	return http.DefaultTransport.RoundTrip(request)
}

func TestCallsThatAskAnOperatorHaveMoreTime(t *testing.T) {
	s := startStub(t, body(`{"verification_id":"v","check_id":"v","status":"COMPLETED","match":true}`))
	times := func(options ...ringtrue.Option) []time.Duration {
		noted := &deadlines{}
		client := s.client(t, append(options, ringtrue.WithHTTPClient(&http.Client{Transport: noted}))...)
		ok(client.Verifications.Redeem(background, "v", url.Values{"verification_id": {"v"}, "code": {"c"}}))(t)
		ok(client.Verifications.RedeemCode(background, "v", "c"))(t)
		ok(client.SimSwap.Create(background, ringtrue.SimSwapCheckInput{}))(t)
		ok(client.SimSwap.Get(background, "v"))(t)
		return noted.left
	}
	// The service waits up to 15 seconds for the operator.
	standard := times()
	for _, left := range standard[:3] {
		if left < 15*time.Second {
			t.Errorf("only %s for a call that asks an operator", left)
		}
	}
	if standard[3] > 10*time.Second {
		t.Errorf("%s for a read", standard[3])
	}
	for _, left := range times(ringtrue.WithTimeout(5 * time.Second)) {
		if left > 5*time.Second {
			t.Errorf("%s in place of the caller's timeout", left)
		}
	}
}

func TestNothingElseIsRetried(t *testing.T) {
	for _, code := range []int{400, 401, 403, 404, 409, 410, 422, 500, 501} {
		s := startStub(t, status(code))
		_, err := s.client(t).SimSwap.Get(background, "x")
		equal(t, "status", as[*ringtrue.APIError](t, err).Status, code)
		want := 1
		if code == 401 {
			want = 2 // with a new token
		}
		equal(t, fmt.Sprintf("requests after %d", code), s.count(), want)
	}
	for name, change := range map[string]func(*ringtrue.Client) error{
		"patch": func(c *ringtrue.Client) error {
			_, err := c.Management.Workspaces.Update(background, "w", ringtrue.WorkspacePatch{})
			return err
		},
		"put": func(c *ringtrue.Client) error {
			_, err := c.Management.AllowedNetworks.Replace(background, "w", "p", nil)
			return err
		},
		"delete": func(c *ringtrue.Client) error {
			return c.Management.WorkspaceCredentials.Delete(background, "w", "c")
		},
		"sms": func(c *ringtrue.Client) error { return c.Sandbox.SendSms(background, ringtrue.SandboxSms{}) },
		"code of a check": func(c *ringtrue.Client) error {
			_, err := c.SecureSna.RedeemCode(background, "c", "code")
			return err
		},
	} {
		for _, failure := range []http.HandlerFunc{status(503), cut} {
			s := startStub(t, failure)
			if err := change(s.client(t)); err == nil {
				t.Errorf("%s: no error", name)
			}
			equal(t, "requests of "+name, s.count(), 1)
		}
		// The service has not processed what it answers with 429.
		s := startStub(t, problem(429, "too_many_requests", "Retry-After", "0"), cut)
		if err := change(s.client(t)); err == nil {
			t.Errorf("%s: no error", name)
		}
		equal(t, "requests of "+name+" after 429", s.count(), 2)
		s = startStub(t, problem(429, "too_many_requests", "Retry-After", "3600"))
		equal(t, "too long for "+name, errors.Is(change(s.client(t)), ringtrue.ErrRateLimited), true)
		equal(t, "requests of "+name+" after a long Retry-After", s.count(), 1)
	}
}

func TestLongRetryAfterFailsAtOnce(t *testing.T) {
	date := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, after := range []string{"3600", date} {
		s := startStub(t, status(503, "Retry-After", after, "X-Request-Id", "r1"))
		_, err := s.client(t).SimSwap.Get(background, "x")
		failure := as[*ringtrue.APIError](t, err)
		if failure.RetryAfter < time.Minute || failure.RequestID != "r1" || s.count() != 1 {
			t.Errorf("unexpected error after %d requests: %+v", s.count(), failure)
		}
	}
}

func TestContextIsHonoured(t *testing.T) {
	s := startStub(t, silence)
	ctx, cancel := context.WithCancel(background)
	go func() {
		for s.count() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := s.client(t).SimSwap.Get(ctx, "x")
	equal(t, "cancelled", errors.Is(err, context.Canceled), true)
	equal(t, "requests", s.count(), 1)
	_, err = s.client(t).SimSwap.Get(ctx, "x")
	equal(t, "cancelled before the call", errors.Is(err, context.Canceled), true)

	// A wait that would outlast the deadline does not begin, and the caller gets the reason.
	s = startStub(t, status(503, "Retry-After", "20"))
	ctx, cancel = context.WithTimeout(background, 10*time.Second)
	defer cancel()
	_, err = s.client(t).SimSwap.Get(ctx, "x")
	equal(t, "status", as[*ringtrue.APIError](t, err).Status, 503)
}

func TestErrorTextHasNoNumberAndNoURL(t *testing.T) {
	client := newClient(t, "http://127.0.0.1:1", credential{ClientID: "id", ClientSecret: "top-secret"}, ringtrue.WithMaxRetries(0))
	_, err := client.Eligibility.OfNumber(background, "+990123456700")
	as[*ringtrue.ConnectionError](t, err)
	s := startStub(t, cut)
	_, cutErr := s.client(t, ringtrue.WithMaxRetries(0)).Eligibility.OfNumber(background, "+990123456700")
	as[*ringtrue.ConnectionError](t, cutErr)
	for _, text := range []string{err.Error(), cutErr.Error()} {
		if strings.Contains(text, "990123") || strings.Contains(text, "secret") || strings.Contains(text, "t0ken") {
			t.Errorf("unexpected text: %s", text)
		}
	}
}

func TestForeignResponsesAreReported(t *testing.T) {
	s := startStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "<html>"+strings.Repeat("x", 5000))
	})
	_, err := s.client(t).SimSwap.Get(background, "x")
	failure := as[*ringtrue.APIError](t, err)
	equal(t, "title", failure.Title, "I'm a teapot")
	s = startStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"detail":%q}`, "x"+strings.Repeat("漢", 5000))
	})
	_, err = s.client(t).SimSwap.Get(background, "x")
	if text := err.Error(); len(text) > 2000 || !utf8.ValidString(text) {
		t.Errorf("unexpected text of %d bytes", len(text))
	}
	s = startStub(t, body("<html>"))
	_, err = s.client(t).SimSwap.Get(background, "x")
	as[*ringtrue.ResponseError](t, err)
	s = startStub(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	})
	_, err = s.client(t).SimSwap.Get(background, "x")
	equal(t, "redirects are not followed", as[*ringtrue.APIError](t, err).Status, 302)
}
