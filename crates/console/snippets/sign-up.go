package main

import (
	"fmt"
	"log"
	"net/http"

	"ringtrue.example/ringtrue"
)

const shop = "http://127.0.0.1:3000"

var client *ringtrue.Client

func main() {
	var err error
	// Remove AllowSandbox when your project is live.
	if client, err = ringtrue.New(ringtrue.AllowSandbox()); err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", signUp)
	http.HandleFunc("/verified", verified)
	http.Handle("/favicon.ico", http.NotFoundHandler())
	fmt.Println("Open " + shop + "/")
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", nil))
}

func signUp(w http.ResponseWriter, r *http.Request) {
	created, err := client.Verifications.Create(r.Context(), ringtrue.VerificationInput{
		PhoneNumber: "+990123456738", // from your sign-up form
		RedirectURL: shop + "/verified",
	})
	if err != nil {
		log.Print(err)
		http.Error(w, "We cannot verify this number.", http.StatusBadRequest)
		return
	}
	// Your own server keeps the id in the user's session.
	http.SetCookie(w, &http.Cookie{
		Name: "verification", Value: created.VerificationID, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	http.Redirect(w, r, created.URL, http.StatusSeeOther)
}

func verified(w http.ResponseWriter, r *http.Request) {
	session := ""
	if cookie, err := r.Cookie("verification"); err == nil {
		session = cookie.Value
	}
	outcome, err := client.Verifications.Redeem(r.Context(), session, r.URL.Query())
	switch {
	case err != nil:
		log.Print(err)
		http.Error(w, "We cannot verify this number.", http.StatusBadRequest)
	case outcome.Open:
		http.Redirect(w, r, outcome.URL, http.StatusSeeOther)
	default:
		fmt.Fprintln(w, "Number verified:", outcome.Verified)
	}
}
