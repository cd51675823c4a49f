// Verifies a number from creation to callback: `go run . [reverse-sms | secure-sna | verification]`.
// `go run . listen` only receives and verifies callbacks.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"ringtrue.example/ringtrue"
)

var (
	phoneNumber = setting("PHONE_NUMBER", "+990123456700")
	// A sandbox number: the code below also acts as its phone.
	isSimulated = strings.HasPrefix(phoneNumber, "+990")
	// Each product creates a check or verification and returns its id. The callback brings the result.
	products = map[string]func(ctx context.Context, client *ringtrue.Client, callbackURL string) (string, error){
		"reverse-sms": reverseSms, "secure-sna": secureSna, "verification": verification, "listen": nil,
	}
)

func setting(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}

// result has the members that the callbacks of all these products share.
type result struct {
	id        string
	Status    string `json:"status"`
	Match     *bool  `json:"match"`
	ErrorCode string `json:"error_code"`
}

// receiver prints callbacks, and passes each result on once: a callback may be delivered more than once.
func receiver(client *ringtrue.Client, pass func(result)) http.Handler {
	once := ringtrue.Once(ringtrue.NewMemorySeenStore(1000, time.Hour), func(_ context.Context, event *ringtrue.Event) error {
		received, err := readResult(event)
		if err == nil {
			// Store the result before responding with 200; process it afterwards.
			go pass(received)
		}
		return err
	})
	process := func(ctx context.Context, event *ringtrue.Event) error {
		received, err := readResult(event)
		if err != nil {
			return err
		}
		match, _ := json.Marshal(received.Match)
		fmt.Printf("verified: %s %s match=%s\n", event.ID, received.Status, match)
		return once(ctx, event)
	}
	return ringtrue.CallbackHandler(client, process, ringtrue.WithErrorHandler(func(_ *http.Request, err error) {
		var rejected *ringtrue.CallbackError
		if errors.As(err, &rejected) && rejected.Status < 500 {
			fmt.Println("rejected:", rejected.Detail)
		} else {
			fmt.Println("failed:", err)
		}
	}))
}

func readResult(event *ringtrue.Event) (result, error) {
	received := result{id: event.ID}
	err := json.Unmarshal(event.Body, &received)
	return received, err
}

func reverseSms(ctx context.Context, client *ringtrue.Client, callbackURL string) (string, error) {
	check, err := client.ReverseSms.Create(ctx, ringtrue.ReverseSmsCheckInput{PhoneNumber: phoneNumber, CallbackURL: callbackURL})
	if err != nil {
		return "", err
	}
	return check.CheckID, askForSms(ctx, client, check.ReceiverPhoneNumber, check.ExpectedSmsBody)
}

func secureSna(ctx context.Context, client *ringtrue.Client, callbackURL string) (string, error) {
	check, err := client.SecureSna.Create(ctx, ringtrue.SecureSnaCheckInput{PhoneNumber: phoneNumber, CallbackURL: callbackURL})
	if err != nil {
		return "", err
	}
	code, err := openOnPhone(ctx, check.URL)
	if err == nil && code != "" {
		_, err = client.SecureSna.RedeemCode(ctx, check.CheckID, code)
	}
	return check.CheckID, err
}

// verification follows the next steps, as a backend does for an app with its own screens. With the hosted page, redirect
// the browser to the URL instead, and call Redeem when it returns: see the README of the library.
func verification(ctx context.Context, client *ringtrue.Client, callbackURL string) (string, error) {
	created, err := client.Verifications.Create(ctx, ringtrue.VerificationInput{PhoneNumber: phoneNumber, CallbackURL: callbackURL})
	if err != nil {
		return "", err
	}
	id, step := created.VerificationID, &created.NextStep
	for step != nil {
		var current *ringtrue.Verification
		if step.Method == ringtrue.VerificationMethodSecureSna {
			current, err = verifySilently(ctx, client, id, step.URL)
		} else if err = askForSms(ctx, client, step.ReceiverPhoneNumber, step.ExpectedSmsBody); err == nil {
			current, err = awaitSms(ctx, client, id, step.ExpectedSmsBody)
		}
		if err != nil {
			return "", err
		}
		step = current.NextStep
	}
	return id, nil
}

func verifySilently(ctx context.Context, client *ringtrue.Client, id, url string) (*ringtrue.Verification, error) {
	code, err := openOnPhone(ctx, url)
	if err != nil || code == "" {
		// The operator has failed: the verification continues with its next method.
		return awaitSms(ctx, client, id, "")
	}
	return client.Verifications.RedeemCode(ctx, id, code)
}

// awaitSms waits until a verification continues or ends. A text from another number may be sent once more, with a new
// text.
func awaitSms(ctx context.Context, client *ringtrue.Client, id, text string) (*ringtrue.Verification, error) {
	for {
		current, err := client.Verifications.Get(ctx, id)
		if err != nil || current.NextStep == nil || current.NextStep.ExpectedSmsBody != text {
			return current, err
		}
		time.Sleep(time.Second)
	}
}

// openOnPhone is what your app does for Secure SNA: it opens the URL over mobile data, and passes the code to your
// backend. The code is empty if the operator fails.
func openOnPhone(ctx context.Context, url string) (string, error) {
	fmt.Println("Phone: open", url)
	if !isSimulated {
		return "", nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var end struct {
		Code string `json:"code"`
	}
	err = json.NewDecoder(response.Body).Decode(&end)
	return end.Code, err
}

// askForSms is what your app does for Reverse SMS: it shows a link that opens the messaging app with the receiver and
// the text filled in.
func askForSms(ctx context.Context, client *ringtrue.Client, receiver, body string) error {
	text := url.PathEscape(body)
	fmt.Printf("Android: sms:%s?body=%s\n", receiver, text)
	fmt.Printf("iOS:     sms:%s&body=%s\n", receiver, text)
	if !isSimulated {
		return nil
	}
	return client.Sandbox.SendSms(ctx, ringtrue.SandboxSms{From: phoneNumber, To: receiver, Body: body})
}

func newClient(isReceiver bool) (*ringtrue.Client, error) {
	options := []ringtrue.Option{ringtrue.WithURL(setting("BASE_URL", "http://127.0.0.1:8080"))}
	if isReceiver {
		options = append(options, ringtrue.WithoutCredential())
	} else {
		options = append(options, ringtrue.WithCredential(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET")))
	}
	if os.Getenv("ACCEPT_SANDBOX") == "1" {
		options = append(options, ringtrue.AllowSandbox())
	}
	return ringtrue.New(options...)
}

func run(name string) error {
	product, isKnown := products[name]
	if !isKnown {
		return fmt.Errorf("unknown argument: %s; expected reverse-sms, secure-sna, verification or listen", name)
	}
	client, err := newClient(name == "listen")
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+setting("CALLBACK_PORT", "9099"))
	if err != nil {
		return err
	}
	callbackURL := fmt.Sprintf("http://%s/callbacks", listener.Addr())
	fmt.Println("listening on", callbackURL)
	server := http.Server{ReadTimeout: 10 * time.Second}
	if product == nil {
		server.Handler = receiver(client, func(result) {})
		return server.Serve(listener)
	}
	results := make(chan result)
	server.Handler = receiver(client, func(received result) { results <- received })
	go server.Serve(listener)
	ctx := context.Background()
	id, err := product(ctx, client, callbackURL)
	if err != nil {
		return err
	}
	for received := range results {
		if received.id != id {
			continue
		}
		if received.Match != nil && *received.Match {
			fmt.Println("number verified")
		} else {
			fmt.Println("number not verified:", received.Status, received.ErrorCode)
		}
		// Completes requests in progress.
		return server.Shutdown(ctx)
	}
	return nil
}

func main() {
	name := "reverse-sms"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(name); err != nil {
		log.Fatal(err)
	}
}
