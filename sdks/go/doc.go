// Package ringtrue verifies phone numbers with a Ringtrue deployment, from your backend.
//
// A verification proves that your user has a number. Create one, send the browser to its page, and redeem what the
// browser brings back:
//
//	client, err := ringtrue.New() // RINGTRUE_URL, RINGTRUE_CLIENT_ID, RINGTRUE_CLIENT_SECRET
//
//	verification, err := client.Verifications.Create(ctx, ringtrue.VerificationInput{
//		PhoneNumber: number,
//		RedirectURL: "https://shop.example.com/verified",
//	})
//	// Store verification.VerificationID in the session, and redirect to verification.URL.
//
//	outcome, err := client.Verifications.Redeem(ctx, session.VerificationID, request.URL.Query())
//	// outcome.Verified
//
// A [Client] is safe for concurrent use. Create one and share it: it caches access tokens and the keys for callbacks.
//
// # Types
//
// Structs and code sets have the names of the API reference. Fields have the reference's names in Go's spelling, such
// as CheckID for `check_id`. A required member is a plain value. An optional one is
//
//   - a plain value that is omitted if empty, where the empty value means the same as none: text, and numbers above 0
//   - a pointer where the zero value has a meaning of its own: bool, numbers that can be 0, lists in requests that can
//     be empty, times, and objects; see [Ptr]
//   - a pointer to [Nullable] in a merge patch, where null resets a setting; see [Set] and [Null]
//
// Code sets are aliases of string, because new codes may appear at any time.
//
// # Errors
//
// Every error of this package implements [Error]. [APIError] is a response with an error, and matches [ErrNotFound]
// and the other sentinel errors with [errors.Is]. [ConnectionError] is a call without a response. No error text
// contains a secret, a token or the number in a request.
package ringtrue

// Version is the version of this library.
const Version = "1.0.0"
