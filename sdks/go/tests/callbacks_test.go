package tests

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringtrue.example/ringtrue"
)

const (
	keysPath = "/.well-known/jwks.json"
	// callbackTarget is a path that decoding would change.
	callbackTarget = "/call%2Fbacks?order=7&note=%C3%A9"
)

// record returns the next callback as the service sends it to the URL that start gets.
func record(t *testing.T, start func(callbackURL string)) ringtrue.CallbackRequest {
	t.Helper()
	received := make(chan ringtrue.CallbackRequest, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- ringtrue.CallbackRequest{Method: r.Method, Target: r.RequestURI, Host: r.Host, Header: r.Header, Body: body}
	}))
	defer server.Close()
	start(server.URL + callbackTarget)
	select {
	case request := <-received:
		return request
	case <-time.After(deadline):
		t.Fatal("no callback")
		panic("unreachable")
	}
}

// completeReverseSms completes a check with a callback URL.
func completeReverseSms(t *testing.T, client *ringtrue.Client, callbackURL string) string {
	t.Helper()
	phone := number("00")
	created := ok(client.ReverseSms.Create(background, ringtrue.ReverseSmsCheckInput{
		PhoneNumber: phone, CallbackURL: callbackURL, ReferenceID: "order 7",
	}))(t)
	sendSms(t, client, phone, created.ReceiverPhoneNumber, created.ExpectedSmsBody)
	return created.CheckID
}

func recordReverseSms(t *testing.T, client *ringtrue.Client) ringtrue.CallbackRequest {
	t.Helper()
	return record(t, func(callbackURL string) { completeReverseSms(t, client, callbackURL) })
}

// resend requests a callback again. The service may still be recording what the receiver has answered.
func resend[T any](t *testing.T, call func(context.Context, string, ...ringtrue.CallOption) (T, error), id string) {
	t.Helper()
	waitFor(t, "the callback is sent again", func() bool {
		_, err := call(background, id)
		var refused *ringtrue.APIError
		if errors.As(err, &refused) && refused.ErrorCode == "callback_in_progress" {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
}

func TestCallbacksOfAllProductsAreVerified(t *testing.T) {
	client := shared.client(t)
	events := make(chan *ringtrue.Event, 10)
	server := httptest.NewServer(ringtrue.CallbackHandler(client, func(_ context.Context, event *ringtrue.Event) error {
		events <- event
		return nil
	}, ringtrue.WithErrorHandler(func(_ *http.Request, err error) { t.Error(err) })))
	defer server.Close()
	callbackURL := server.URL + callbackTarget
	next := func(kind, id string) *ringtrue.Event {
		t.Helper()
		select {
		case event := <-events:
			equal(t, "kind", event.Kind, kind)
			equal(t, "id", event.ID, id)
			equal(t, "attempt", event.Attempt, 1)
			equal(t, "sandbox", event.IsSandbox, true)
			return event
		case <-time.After(deadline):
			t.Fatal("no callback of " + kind)
			return nil
		}
	}

	id := completeReverseSms(t, client, callbackURL)
	sms := next(ringtrue.EventReverseSms, id).Result.(*ringtrue.ReverseSmsCallback)
	equal(t, "match", *sms.Match, true)
	equal(t, "reference", sms.ReferenceID, "order 7")
	resend(t, client.ReverseSms.ResendCallback, id)
	next(ringtrue.EventReverseSms, id)

	sna := ok(client.SecureSna.Create(background, ringtrue.SecureSnaCheckInput{PhoneNumber: number("01"), CallbackURL: callbackURL}))(t)
	ok(client.SecureSna.RedeemCode(background, sna.CheckID, openOnDevice(t, sna.URL)))(t)
	equal(t, "match", *next(ringtrue.EventSecureSna, sna.CheckID).Result.(*ringtrue.SecureSnaCallback).Match, false)
	resend(t, client.SecureSna.ResendCallback, sna.CheckID)
	next(ringtrue.EventSecureSna, sna.CheckID)

	phone := number("00")
	discovery := ok(client.Discovery.Create(background, ringtrue.DiscoveryCheckInput{CallbackURL: callbackURL}))(t)
	code := openOnDevice(t, discovery.URL+"&sim=%2B"+phone[1:])
	ok(client.Discovery.RedeemCode(background, discovery.CheckID, code))(t)
	discovered := next(ringtrue.EventDiscovery, discovery.CheckID).Result.(*ringtrue.DiscoveryCallback)
	equal(t, "number", discovered.PhoneNumber, phone)
	resend(t, client.Discovery.ResendCallback, discovery.CheckID)
	next(ringtrue.EventDiscovery, discovery.CheckID)

	verification := ok(client.Verifications.Create(background, ringtrue.VerificationInput{PhoneNumber: number("00"), CallbackURL: callbackURL}))(t)
	ok(client.Verifications.RedeemCode(background, verification.VerificationID, openOnDevice(t, verification.NextStep.URL)))(t)
	event := next(ringtrue.EventVerification, verification.VerificationID)
	equal(t, "steps", len(event.Result.(*ringtrue.VerificationCallback).Steps), 1)
	equal(t, "body", json.Valid(event.Body), true)
	resend(t, client.Verifications.ResendCallback, verification.VerificationID)
	next(ringtrue.EventVerification, verification.VerificationID)
}

// rejection returns the reason for which a request is rejected.
func rejection(t *testing.T, client *ringtrue.Client, request ringtrue.CallbackRequest) *ringtrue.CallbackError {
	t.Helper()
	event, err := client.Callbacks.VerifyRaw(background, request)
	if event != nil {
		t.Errorf("unexpected event: %+v", event)
	}
	return as[*ringtrue.CallbackError](t, err)
}

func TestModifiedCallbacksAreRejected(t *testing.T) {
	client := shared.client(t)
	good := recordReverseSms(t, client)
	ok(client.Callbacks.VerifyRaw(background, good))(t)
	header := func(name string, change func(string) string) func(*ringtrue.CallbackRequest) {
		return func(r *ringtrue.CallbackRequest) { r.Header.Set(name, change(r.Header.Get(name))) }
	}
	other := func(old, new string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, new, 1) }
	}
	replaceWith := func(text string) func(string) string { return func(string) string { return text } }
	flip := func(at int) func(string) string {
		return func(text string) string {
			character := "A"
			if text[at:at+1] == character {
				character = "B"
			}
			return text[:at] + character + text[at+1:]
		}
	}
	for name, test := range map[string]struct {
		change func(*ringtrue.CallbackRequest)
		reason string
	}{
		"body":   {func(r *ringtrue.CallbackRequest) { r.Body = append([]byte(" "), r.Body...) }, ringtrue.CallbackDigestMismatch},
		"digest": {header("Digest", flip(12)), ringtrue.CallbackDigestMismatch},
		"body and digest": {func(r *ringtrue.CallbackRequest) {
			r.Body = []byte(strings.Replace(string(r.Body), "true", "false", 1))
			hash := sha256.Sum256(r.Body)
			r.Header.Set("Digest", "SHA-256="+base64.StdEncoding.EncodeToString(hash[:]))
		}, ringtrue.CallbackSignatureInvalid},
		"method":             {func(r *ringtrue.CallbackRequest) { r.Method = "PUT" }, ringtrue.CallbackSignatureInvalid},
		"path":               {func(r *ringtrue.CallbackRequest) { r.Target = "/call/backs?order=7&note=%C3%A9" }, ringtrue.CallbackSignatureInvalid},
		"query":              {func(r *ringtrue.CallbackRequest) { r.Target += "0" }, ringtrue.CallbackSignatureInvalid},
		"host":               {func(r *ringtrue.CallbackRequest) { r.Host = "shop.example" }, ringtrue.CallbackSignatureInvalid},
		"kind":               {header("X-Service-Callback", replaceWith("discovery")), ringtrue.CallbackSignatureInvalid},
		"date":               {header("Date", replaceWith(time.Now().Add(time.Minute).UTC().Format(http.TimeFormat))), ringtrue.CallbackSignatureInvalid},
		"no date":            {header("Date", replaceWith("some day")), ringtrue.CallbackDateOutsideWindow},
		"signature":          {header("Authorization", other(`signature="`, `signature="AAAA`)), ringtrue.CallbackSignatureInvalid},
		"signature letters":  {header("Authorization", other(`signature="`, `signature="!`)), ringtrue.CallbackSignatureInvalid},
		"algorithm":          {header("Authorization", other("rsa-sha256", "hmac-sha256")), ringtrue.CallbackAlgorithmUnsupported},
		"fewer headers":      {header("Authorization", other(" digest", "")), ringtrue.CallbackAlgorithmUnsupported},
		"other order":        {header("Authorization", other("host date", "date host")), ringtrue.CallbackAlgorithmUnsupported},
		"key":                {header("Authorization", flip(len(`Signature keyId="`))), ringtrue.CallbackKeyUnknown},
		"scheme":             {header("Authorization", replaceWith("Bearer 1234")), ringtrue.CallbackHeaderInvalid},
		"extra parameter":    {header("Authorization", func(text string) string { return text + `,created="1"` }), ringtrue.CallbackHeaderInvalid},
		"repeated parameter": {header("Authorization", func(text string) string { return text + `,keyId="1"` }), ringtrue.CallbackHeaderInvalid},
		"space":              {header("Authorization", other(`,algorithm`, `, algorithm`)), ringtrue.CallbackHeaderInvalid},
		"no authorization":   {func(r *ringtrue.CallbackRequest) { r.Header.Del("Authorization") }, ringtrue.CallbackHeaderInvalid},
		"no digest":          {func(r *ringtrue.CallbackRequest) { r.Header.Del("Digest") }, ringtrue.CallbackHeaderInvalid},
		"no kind":            {func(r *ringtrue.CallbackRequest) { r.Header.Del("X-Service-Callback") }, ringtrue.CallbackHeaderInvalid},
		"two dates":          {func(r *ringtrue.CallbackRequest) { r.Header.Add("Date", r.Header.Get("Date")) }, ringtrue.CallbackHeaderInvalid},
		"two digests":        {func(r *ringtrue.CallbackRequest) { r.Header.Add("Digest", r.Header.Get("Digest")) }, ringtrue.CallbackHeaderInvalid},
	} {
		changed := good
		changed.Header = good.Header.Clone()
		changed.Body = append([]byte{}, good.Body...)
		test.change(&changed)
		rejected := rejection(t, client, changed)
		equal(t, "reason of "+name, rejected.Reason, test.reason)
		equal(t, "status of "+name, rejected.Status, http.StatusUnauthorized)
	}
	large := good
	large.Body = make([]byte, 70_000)
	equal(t, "status of a large body", rejection(t, client, large).Status, http.StatusRequestEntityTooLarge)
	// What is not signed does not matter.
	good.Header.Set("X-Service-Callback-Attempt", "many")
	equal(t, "attempt", ok(client.Callbacks.VerifyRaw(background, good))(t).Attempt, 0)
}

func TestClockDecidesWhichCallbacksAreTooOld(t *testing.T) {
	good := recordReverseSms(t, shared.client(t))
	sent := ok(http.ParseTime(good.Header.Get("Date")))(t)
	for offset, isAccepted := range map[time.Duration]bool{
		-301 * time.Second: false, -299 * time.Second: true, 299 * time.Second: true, 301 * time.Second: false,
	} {
		at := sent.Add(offset)
		client := shared.client(t, ringtrue.WithClock(func() time.Time { return at }))
		_, err := client.Callbacks.VerifyRaw(background, good)
		equal(t, "accepted at "+offset.String(), err == nil, isAccepted)
		if !isAccepted {
			equal(t, "reason", as[*ringtrue.CallbackError](t, err).Reason, ringtrue.CallbackDateOutsideWindow)
		}
	}
}

func TestSandboxKeyIsRefusedByDefault(t *testing.T) {
	good := recordReverseSms(t, shared.client(t))
	rejected := rejection(t, newClient(t, shared.BaseURL, shared.Project), good)
	equal(t, "reason", rejected.Reason, ringtrue.CallbackKeyRefused)
	equal(t, "status", rejected.Status, http.StatusUnauthorized)
}

func TestPublicURLDecidesTheHost(t *testing.T) {
	client := shared.client(t)
	good := recordReverseSms(t, client)
	// A proxy has replaced the host and removed a prefix.
	behind := good
	behind.Host, behind.Target = "10.0.0.7:3000", strings.TrimPrefix(good.Target, "/call%2Fbacks")
	public := shared.client(t, ringtrue.WithPublicURL("http://"+good.Host+"/call%2Fbacks"))
	ok(public.Callbacks.VerifyRaw(background, behind))(t)
	equal(t, "reason without it", rejection(t, client, behind).Reason, ringtrue.CallbackSignatureInvalid)
	// A callback that was signed for another receiver, which passes it on with its Host header.
	elsewhere := shared.client(t, ringtrue.WithPublicURL("https://shop.example"))
	equal(t, "reason elsewhere", rejection(t, elsewhere, good).Reason, ringtrue.CallbackSignatureInvalid)
}

func TestRotatedKeyIsFetched(t *testing.T) {
	s := startService(t, noLimits...)
	var requests counter
	client := s.client(t, requests.option())
	before := recordReverseSms(t, client)
	ok(client.Callbacks.VerifyRaw(background, before))(t)
	ok(client.Callbacks.VerifyRaw(background, before))(t)
	equal(t, "fetches", requests.count(keysPath), 1)
	s.run(t, "keys", "rotate", "--purpose", "sandbox_callback", "--emergency")
	keyID := func(request ringtrue.CallbackRequest) string {
		return strings.Split(request.Header.Get("Authorization"), `"`)[1]
	}
	var after ringtrue.CallbackRequest
	waitFor(t, "the new key signs", func() bool {
		after = recordReverseSms(t, client)
		return keyID(after) != keyID(before)
	})
	ok(client.Callbacks.VerifyRaw(background, after))(t)
	equal(t, "fetches after the rotation", requests.count(keysPath), 2)
	equal(t, "the old key", rejection(t, client, before).Reason, ringtrue.CallbackKeyUnknown)
	// Forged key ids cause no flood.
	for n := 0; n < 20; n++ {
		forged := after
		forged.Header = after.Header.Clone()
		forged.Header.Set("Authorization", strings.Replace(after.Header.Get("Authorization"), keyID(after), fmt.Sprint("forged", n), 1))
		equal(t, "reason", rejection(t, client, forged).Reason, ringtrue.CallbackKeyUnknown)
	}
	equal(t, "fetches in the end", requests.count(keysPath), 2)
}

// keyServer is a key set with the keys of the test, for what the real service cannot be made to do.
type keyServer struct {
	*httptest.Server
	key     *rsa.PrivateKey
	useMode string
	control string
	isDown  atomic.Bool
	fetches atomic.Int64
}

func startKeyServer(t *testing.T, useMode, cacheControl string) *keyServer {
	s := &keyServer{key: ok(rsa.GenerateKey(rand.Reader, 2048))(t), useMode: useMode, control: cacheControl}
	encode := base64.RawURLEncoding.EncodeToString
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.fetches.Add(1)
		if s.isDown.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Cache-Control", s.control)
		key := map[string]string{
			"kty": "RSA", "kid": "own", "use": "sig", "alg": "RS256",
			"n": encode(s.key.N.Bytes()), "e": encode(big.NewInt(int64(s.key.E)).Bytes()),
		}
		if s.useMode != "" {
			key["use_mode"] = s.useMode
		}
		weak := map[string]string{"kty": "RSA", "kid": "weak", "use": "sig", "alg": "RS256", "n": "AQAB", "e": "AQAB"}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "EC", "kid": "other"}, weak, key}})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *keyServer) client(t *testing.T, options ...ringtrue.Option) *ringtrue.Client {
	return ok(ringtrue.New(append([]ringtrue.Option{ringtrue.WithURL(s.URL), ringtrue.WithoutCredential()}, options...)...))(t)
}

// sign makes a callback with a valid signature.
func (s *keyServer) sign(t *testing.T, at time.Time, kind, body string) ringtrue.CallbackRequest {
	t.Helper()
	hash := sha256.Sum256([]byte(body))
	date, digest := at.UTC().Format(http.TimeFormat), "SHA-256="+base64.StdEncoding.EncodeToString(hash[:])
	text := "(request-target): post /callbacks\nhost: shop.example\ndate: " + date + "\nx-service-callback: " + kind + "\ndigest: " + digest
	sum := sha256.Sum256([]byte(text))
	signature := base64.StdEncoding.EncodeToString(ok(rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:]))(t))
	authorization := `Signature keyId="own",algorithm="rsa-sha256",headers="(request-target) host date x-service-callback digest",signature="` + signature + `"`
	return ringtrue.CallbackRequest{
		Method: "POST", Target: "/callbacks", Host: "shop.example", Body: []byte(body),
		Header: http.Header{"Date": {date}, "X-Service-Callback": {kind}, "Digest": {digest}, "Authorization": {authorization}},
	}
}

const callbackBody = `{"check_id":"01a1debb-088a-72d0-82af-11de1aae5598","status":"COMPLETED","match":true}`

func TestLiveKeyIsAccepted(t *testing.T) {
	s := startKeyServer(t, "", "public, max-age=3600")
	client := s.client(t, ringtrue.WithPublicURL("https://Shop.example:443/"))
	request := s.sign(t, time.Now(), "reverse_sms", callbackBody)
	event := ok(client.Callbacks.VerifyRaw(background, request))(t)
	equal(t, "sandbox", event.IsSandbox, false)
	newer := ok(client.Callbacks.VerifyRaw(background, s.sign(t, time.Now(), "voice", callbackBody)))(t)
	equal(t, "result of an unknown kind", newer.Result, nil)
	equal(t, "id of an unknown kind", newer.ID, event.ID)
	weak := s.sign(t, time.Now(), "reverse_sms", callbackBody)
	weak.Header.Set("Authorization", strings.Replace(weak.Header.Get("Authorization"), "own", "weak", 1))
	equal(t, "reason of a weak key", rejection(t, client, weak).Reason, ringtrue.CallbackKeyUnknown)
	for _, body := range []string{"[]", "{}", `{"check_id":7}`, `{"check_id":"1","match":"yes"}`} {
		rejected := rejection(t, client, s.sign(t, time.Now(), "reverse_sms", body))
		equal(t, "status of "+body, rejected.Status, http.StatusBadRequest)
	}
	for _, mode := range []string{"sandbox", "rehearsal"} {
		other := startKeyServer(t, mode, "")
		rejected := rejection(t, other.client(t), other.sign(t, time.Now(), "reverse_sms", callbackBody))
		equal(t, "reason of "+mode, rejected.Reason, ringtrue.CallbackKeyRefused)
		_, err := other.client(t, ringtrue.AllowSandbox()).Callbacks.VerifyRaw(background, other.sign(t, time.Now(), "reverse_sms", callbackBody))
		equal(t, "accepted in tests", err == nil, mode == "sandbox")
	}
}

func TestKeysAreCachedThroughAnOutage(t *testing.T) {
	s := startKeyServer(t, "", "public, max-age=600")
	start := time.Now()
	var elapsed atomic.Int64
	clock := func() time.Time { return start.Add(time.Duration(elapsed.Load())) }
	client := s.client(t, ringtrue.WithClock(clock))
	verify := func() error {
		_, err := client.Callbacks.VerifyRaw(background, s.sign(t, clock(), "reverse_sms", callbackBody))
		return err
	}
	s.isDown.Store(true)
	rejected := as[*ringtrue.CallbackError](t, verify())
	equal(t, "reason", rejected.Reason, ringtrue.CallbackKeysUnavailable)
	equal(t, "status", rejected.Status, http.StatusServiceUnavailable)
	s.isDown.Store(false)
	for n := 0; n < 3; n++ {
		if err := verify(); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "fetches", s.fetches.Load(), 2)
	elapsed.Store(int64(599 * time.Second))
	equal(t, "error before the end of the life", verify(), nil)
	equal(t, "fetches before the end of the life", s.fetches.Load(), 2)
	elapsed.Store(int64(700 * time.Second))
	equal(t, "error after the end of the life", verify(), nil)
	equal(t, "fetches after the end of the life", s.fetches.Load(), 3)
	s.isDown.Store(true)
	elapsed.Store(int64(2000 * time.Second))
	for n := 0; n < 5; n++ {
		equal(t, "error during an outage", verify(), nil)
	}
	equal(t, "fetches during an outage", s.fetches.Load(), 5)
}

func TestConcurrentCallbacksShareOneFetch(t *testing.T) {
	s := startKeyServer(t, "", "")
	client, request := s.client(t), s.sign(t, time.Now(), "reverse_sms", callbackBody)
	var group sync.WaitGroup
	for n := 0; n < 20; n++ {
		group.Add(1)
		go func() {
			defer group.Done()
			if _, err := client.Callbacks.VerifyRaw(background, request); err != nil {
				t.Error(err)
			}
		}()
	}
	group.Wait()
	equal(t, "fetches", s.fetches.Load(), 1)
}

func TestHandlerResponses(t *testing.T) {
	keys := startKeyServer(t, "", "")
	var reported atomic.Value
	var failure error
	handler := ringtrue.CallbackHandler(keys.client(t), func(context.Context, *ringtrue.Event) error { return failure },
		ringtrue.WithErrorHandler(func(_ *http.Request, err error) { reported.Store(err.Error()) }))
	serve := func(method string, callback ringtrue.CallbackRequest) int {
		t.Helper()
		request := httptest.NewRequest(method, callback.Target, strings.NewReader(string(callback.Body)))
		request.Host, request.Header = callback.Host, callback.Header
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		return recorder.Code
	}
	good := keys.sign(t, time.Now(), "reverse_sms", callbackBody)
	equal(t, "valid", serve("POST", good), 200)
	equal(t, "other method", serve("PUT", good), 405)
	failure = errors.New("the database is down")
	equal(t, "failed function", serve("POST", good), 500)
	equal(t, "reported", reported.Load().(string), "the database is down")
	failure = nil
	equal(t, "no JSON", serve("POST", keys.sign(t, time.Now(), "reverse_sms", "[]")), 400)
	changed := good
	changed.Body = []byte("{}")
	equal(t, "changed", serve("POST", changed), 401)
	if text := reported.Load().(string); !strings.Contains(text, "digest") {
		t.Errorf("unexpected report %q", text)
	}
	changed.Body = make([]byte, 1<<20)
	equal(t, "too large", serve("POST", changed), 413)
	unreachable := ok(ringtrue.New(ringtrue.WithURL("http://127.0.0.1:1"), ringtrue.WithoutCredential()))(t)
	handler = ringtrue.CallbackHandler(unreachable, func(context.Context, *ringtrue.Event) error { return nil })
	equal(t, "no keys", serve("POST", good), 503)
}

func TestDuplicatesAreProcessedOnce(t *testing.T) {
	client := shared.client(t)
	var calls atomic.Int64
	delivered := make(chan int, 10)
	handler := ringtrue.CallbackHandler(client, ringtrue.Once(ringtrue.NewMemorySeenStore(100, time.Hour),
		func(context.Context, *ringtrue.Event) error {
			calls.Add(1)
			return nil
		}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		w.WriteHeader(recorder.Code)
		delivered <- recorder.Code
	}))
	defer server.Close()
	id := completeReverseSms(t, client, server.URL+callbackTarget)
	for n := 0; n < 3; n++ {
		select {
		case code := <-delivered:
			equal(t, "status", code, http.StatusOK)
		case <-time.After(deadline):
			t.Fatal("no callback")
		}
		if n < 2 {
			resend(t, client.ReverseSms.ResendCallback, id)
		}
	}
	equal(t, "calls", calls.Load(), 1)
}

func TestFailedProcessingIsNotMarkedAsSeen(t *testing.T) {
	store := ringtrue.NewMemorySeenStore(100, time.Hour)
	results := []error{errors.New("first"), nil}
	var calls int
	process := ringtrue.Once(store, func(context.Context, *ringtrue.Event) error {
		calls++
		return results[calls-1]
	})
	event := &ringtrue.Event{ID: "1"}
	equal(t, "first", process(background, event) != nil, true)
	equal(t, "second", process(background, event), nil)
	equal(t, "third", process(background, event), nil)
	equal(t, "calls", calls, 2)
}

func TestSimultaneousDuplicatesWait(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	process := ringtrue.Once(ringtrue.NewMemorySeenStore(100, time.Hour), func(context.Context, *ringtrue.Event) error {
		calls.Add(1)
		close(started)
		<-finish
		return nil
	})
	event := &ringtrue.Event{ID: "1"}
	results := make(chan error, 2)
	go func() { results <- process(background, event) }()
	<-started
	cancelled, cancel := context.WithCancel(background)
	cancel()
	equal(t, "cancelled", errors.Is(process(cancelled, event), context.Canceled), true)
	go func() { results <- process(background, event) }()
	close(finish)
	equal(t, "first", <-results, nil)
	equal(t, "second", <-results, nil)
	equal(t, "calls", calls.Load(), 1)
}

func TestMemorySeenStoreIsBounded(t *testing.T) {
	store := ringtrue.NewMemorySeenStore(3, time.Hour)
	for n := 0; n < 10; n++ {
		_ = store.MarkSeen(background, fmt.Sprint(n))
	}
	equal(t, "entries", store.Len(), 3)
	for id, want := range map[string]bool{"6": false, "7": true, "9": true} {
		equal(t, "seen "+id, ok(store.Seen(background, id))(t), want)
	}
	short := ringtrue.NewMemorySeenStore(3, time.Nanosecond)
	_ = short.MarkSeen(background, "1")
	waitFor(t, "the entry expires", func() bool { return !ok(short.Seen(background, "1"))(t) })
}
