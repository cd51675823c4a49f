// Reverse SMS check, from creation to callback. `go run . listen` only receives and verifies callbacks.
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
)

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
		fmt.Printf("verified: %s %s match=%s\n", callback.CheckID, callback.Status, match)
		// Store the callback before responding with 200; process it afterwards.
		if _, duplicate := r.seen.LoadOrStore(callback.CheckID, true); !duplicate && r.verified != nil {
			go func() { r.verified <- callback }()
		}
		response.WriteHeader(http.StatusOK)
	}
}

// call posts to the API. It exits with the response body if the request fails.
func call(path string, authorize func(*http.Request), contentType string, body []byte, result any) {
	request, err := http.NewRequest(http.MethodPost, baseURL+path, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("content-type", contentType)
	authorize(request)
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	// A problem body explains the error in `detail`; `type` is the URL of its documentation.
	if err != nil || response.StatusCode >= 300 {
		log.Fatalf("%s: %s %s", path, response.Status, text)
	}
	if result != nil {
		if err := json.Unmarshal(text, result); err != nil {
			log.Fatal(err)
		}
	}
}

func flow(callbackURL string, verified <-chan *Callback) {
	var grant struct {
		AccessToken string `json:"access_token"`
	}
	basic := func(request *http.Request) { request.SetBasicAuth(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")) }
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {"reverse_sms"}}.Encode()
	call("/oauth2/token", basic, "application/x-www-form-urlencoded", []byte(form), &grant)
	post := func(path string, body map[string]string, result any) {
		text, _ := json.Marshal(body)
		bearer := func(request *http.Request) { request.Header.Set("authorization", "Bearer "+grant.AccessToken) }
		call(path, bearer, "application/json", text, result)
	}
	var check struct {
		ID       string `json:"check_id"`
		Receiver string `json:"receiver_phone_number"`
		Text     string `json:"expected_sms_body"`
	}
	post("/v1/number-verification/reverse-sms-checks",
		map[string]string{"phone_number": phoneNumber, "callback_url": callbackURL}, &check)

	// Your app shows this link. It opens the messaging app with the receiver and text filled in.
	text := url.PathEscape(check.Text)
	fmt.Printf("Android: sms:%s?body=%s\n", check.Receiver, text)
	fmt.Printf("iOS:     sms:%s&body=%s\n", check.Receiver, text)
	if strings.HasPrefix(phoneNumber, "+990") {
		// A sandbox number: a simulated handset sends the SMS.
		post("/v1/sandbox/inbound-sms",
			map[string]string{"from": phoneNumber, "to": check.Receiver, "body": check.Text}, nil)
	}
	for callback := range verified {
		if callback.CheckID != check.ID {
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

func main() {
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
	if len(os.Args) > 1 && os.Args[1] == "listen" {
		log.Fatal(server.Serve(listener))
	}
	receiver.verified = make(chan *Callback)
	go server.Serve(listener)
	flow(callbackURL, receiver.verified)
	// Completes requests in progress.
	if err := server.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
}
