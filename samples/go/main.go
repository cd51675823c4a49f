// Verifies a number from creation to callback: `go run . [reverse-sms | secure-sna | verification]`.
// `go run . listen` only receives and verifies callbacks.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

const maxBodyBytes = 64 * 1024

var (
	baseURL     = setting("BASE_URL", "http://127.0.0.1:8080")
	phoneNumber = setting("PHONE_NUMBER", "+990123456700")
	// A sandbox number: the code below also acts as its phone.
	isSimulated = strings.HasPrefix(phoneNumber, "+990")
	products    = map[string]product{
		"reverse-sms":  {"reverse_sms", "/v1/number-verification/reverse-sms-checks"},
		"secure-sna":   {"secure_sna", "/v1/number-verification/secure-sna-checks"},
		"verification": {"verification", "/v1/verifications"},
	}
)

type product struct{ scope, path string }

func setting(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// receiver receives callbacks and ignores duplicates: a callback may be delivered more than once.
type receiver struct {
	keySet   *KeySet
	seen     sync.Map
	verified chan *Callback
}

func (r *receiver) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBodyBytes))
	if err != nil {
		response.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	callback, err := Verify(request, body, r.keySet)
	var invalid InvalidCallback
	switch {
	case errors.As(err, &invalid):
		fmt.Println("rejected:", invalid)
		response.WriteHeader(http.StatusUnauthorized)
	case err != nil:
		fmt.Println("failed to verify:", err)
		response.WriteHeader(http.StatusServiceUnavailable)
	default:
		match, _ := json.Marshal(callback.Match)
		fmt.Printf("verified: %s %s match=%s\n", callback.ID(), callback.Status, match)
		// Store the callback before responding with 200; process it afterwards.
		if _, duplicate := r.seen.LoadOrStore(callback.ID(), true); !duplicate && r.verified != nil {
			go func() { r.verified <- callback }()
		}
		response.WriteHeader(http.StatusOK)
	}
}

// call calls the API: GET without a body. It exits with the response body if the request fails.
func call(path, contentType string, body []byte, authorize func(*http.Request), result any) {
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	request, err := http.NewRequest(method, baseURL+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("content-type", contentType)
	authorize(request)
	text, status := send(request)
	// A problem body explains the error in `detail`; `type` is the URL of its documentation.
	if status >= 300 {
		log.Fatalf("%s: %d %s", path, status, text)
	}
	if result != nil {
		if err := json.Unmarshal(text, result); err != nil {
			log.Fatal(err)
		}
	}
}

func send(request *http.Request) ([]byte, int) {
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	return text, response.StatusCode
}

// token is an access token. It has one scope, and is valid for an hour: cache it.
type token string

func newToken(scope string) token {
	var grant struct {
		AccessToken token `json:"access_token"`
	}
	basic := func(request *http.Request) { request.SetBasicAuth(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")) }
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}.Encode()
	call("/oauth2/token", "application/x-www-form-urlencoded", []byte(form), basic, &grant)
	return grant.AccessToken
}

func (t token) authorize(request *http.Request) {
	request.Header.Set("authorization", "Bearer "+string(t))
}

func (t token) post(path string, body map[string]string, result any) {
	text, _ := json.Marshal(body)
	call(path, "application/json", text, t.authorize, result)
}

func (t token) get(path string, result any) { call(path, "application/json", nil, t.authorize, result) }

// step is what the user's phone does: it opens the URL, or sends the SMS.
type step struct {
	URL      string `json:"url"`
	Receiver string `json:"receiver_phone_number"`
	Text     string `json:"expected_sms_body"`
}

// resource is a verification, which has a next step while it is open, or a check, which has the members of its step.
type resource struct {
	step
	CheckID        string `json:"check_id"`
	VerificationID string `json:"verification_id"`
	NextStep       *step  `json:"next_step"`
}

// flow creates a check or verification, and waits for its callback.
func flow(product product, callbackURL string, verified <-chan *Callback) {
	token := newToken(product.scope)
	var created resource
	token.post(product.path, map[string]string{"phone_number": phoneNumber, "callback_url": callbackURL}, &created)
	id := created.CheckID + created.VerificationID
	next := created.NextStep
	if next == nil {
		next = &created.step
	}
	for next != nil {
		if next.URL != "" {
			next = verifySilently(next.URL, product.path+"/"+id, token)
		} else {
			askForSMS(next)
			if created.NextStep == nil {
				break
			}
			next = followingStep(next, product.path+"/"+id, token)
		}
	}
	for callback := range verified {
		if callback.ID() != id {
			continue
		}
		if callback.Match != nil && *callback.Match {
			fmt.Println("number verified")
		} else {
			fmt.Println("number not verified:", callback.Status, callback.ErrorCode)
		}
		return
	}
}

// verifySilently is Secure SNA: your app opens the URL over mobile data, and passes the code to your backend, which
// redeems it. It returns the next step of a verification.
func verifySilently(url, path string, token token) *step {
	fmt.Println("Phone: open", url)
	if !isSimulated {
		return nil
	}
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("accept", "application/json")
	text, _ := send(request)
	var device struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal(text, &device); err != nil {
		log.Fatal(err)
	}
	var result resource
	if device.Code != "" {
		token.post(path, map[string]string{"code": device.Code}, &result)
	} else {
		// The operator has failed: a verification goes on with its next method.
		token.get(path, &result)
	}
	return result.NextStep
}

// askForSMS is Reverse SMS: your app shows this link. It opens the messaging app with the receiver and text filled in.
func askForSMS(step *step) {
	text := url.PathEscape(step.Text)
	fmt.Printf("Android: sms:%s?body=%s\n", step.Receiver, text)
	fmt.Printf("iOS:     sms:%s&body=%s\n", step.Receiver, text)
	if isSimulated {
		sms := map[string]string{"from": phoneNumber, "to": step.Receiver, "body": step.Text}
		newToken("reverse_sms").post("/v1/sandbox/inbound-sms", sms, nil)
	}
}

// followingStep waits until a verification goes on or ends. A text from another number may be sent once more, with a new
// text.
func followingStep(previous *step, path string, token token) *step {
	for {
		var current resource
		token.get(path, &current)
		if current.NextStep == nil || current.NextStep.Text != previous.Text {
			return current.NextStep
		}
		time.Sleep(time.Second)
	}
}

func main() {
	name := "reverse-sms"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	product, known := products[name]
	if !known && name != "listen" {
		log.Fatalf("unknown argument: %s; expected reverse-sms, secure-sna, verification or listen", name)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("CALLBACK_PORT", "9099"))
	if err != nil {
		log.Fatal(err)
	}
	callbackURL := fmt.Sprintf("http://%s/callbacks", listener.Addr())
	fmt.Println("listening on", callbackURL)
	receiver := &receiver{keySet: &KeySet{
		URL:           baseURL + "/.well-known/jwks.json",
		AcceptSandbox: os.Getenv("ACCEPT_SANDBOX") == "1",
	}}
	server := http.Server{Handler: receiver, ReadTimeout: 10 * time.Second}
	if name == "listen" {
		log.Fatal(server.Serve(listener))
	}
	receiver.verified = make(chan *Callback)
	go server.Serve(listener)
	flow(product, callbackURL, receiver.verified)
	// Completes requests in progress.
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
