package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"ringtrue.example/ringtrue"
)

func main() {
	// The origin of your callback URL.
	publicURL := ringtrue.WithPublicURL("http://127.0.0.1:9099")
	// Remove AllowSandbox when your project is live.
	client, err := ringtrue.New(ringtrue.AllowSandbox(), publicURL)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/callbacks", ringtrue.CallbackHandler(client, save))
	fmt.Println("Listening")
	log.Fatal(http.ListenAndServe("127.0.0.1:9099", nil))
}

// Your own program saves the result, if it has created the id.
func save(_ context.Context, event *ringtrue.Event) error {
	if result, ok := event.Result.(*ringtrue.VerificationCallback); ok {
		isMatch := result.Match != nil && *result.Match
		fmt.Println(event.Kind, event.ID, result.Status, "match:", isMatch)
	}
	return nil
}
