package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"ringtrue.example/ringtrue"
)

func main() {
	client, err := ringtrue.New(ringtrue.AllowSandbox())
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	created, err := client.Verifications.Create(ctx, ringtrue.VerificationInput{PhoneNumber: "+990123456732"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Open this page, and confirm the phone:", created.URL)
	for {
		verification, err := client.Verifications.Get(ctx, created.VerificationID)
		if err != nil {
			log.Fatal(err)
		}
		switch verification.Status {
		case ringtrue.CheckStatusAccepted, ringtrue.CheckStatusPending:
			time.Sleep(time.Second)
		default:
			isMatch := verification.Match != nil && *verification.Match
			fmt.Println(verification.Status, "match:", isMatch)
			return
		}
	}
}
