package tests

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"ringtrue.example/ringtrue"
)

const redirectURL = "http://shop.example/verified"

func startVerification(t *testing.T, client *ringtrue.Client, phone string) *ringtrue.CreatedVerification {
	t.Helper()
	return ok(client.Verifications.Create(background, ringtrue.VerificationInput{PhoneNumber: phone, RedirectURL: redirectURL}))(t)
}

func TestReturnIsRedeemed(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := startVerification(t, client, number("00"))
	query := user.checkSilently(t, created.URL, redirectURL)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	if !outcome.Verified || outcome.Open || outcome.Reason != "" || outcome.IsReplayed {
		t.Errorf("unexpected outcome: %+v", outcome)
	}
	equal(t, "method", outcome.Verification.Method, "secure_sna")

	// The user reloads the page.
	again := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified again", again.Verified, true)
	equal(t, "replayed", again.IsReplayed, true)

	// Without the code, the match proves nothing about this browser.
	query.Del("code")
	without := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified without code", without.Verified, false)
	equal(t, "reason", without.Reason, ringtrue.ReasonCodeMissing)
}

func TestMismatchIsNotVerified(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := startVerification(t, client, number("01"))
	query := user.checkSilently(t, created.URL, redirectURL)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified", outcome.Verified, false)
	equal(t, "reason", outcome.Reason, ringtrue.ReasonNoMatch)
}

func TestReturnAfterSmsIsRedeemed(t *testing.T) {
	client, user, phone := shared.client(t), newBrowser(), number("96")
	created := startVerification(t, client, phone)
	user.navigate(t, http.MethodGet, created.URL, nil)
	sendSms(t, client, phone, created.NextStep.ReceiverPhoneNumber, created.NextStep.ExpectedSmsBody)
	query := user.returnQuery(t, created.URL, redirectURL)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified", outcome.Verified, true)
	equal(t, "method", outcome.Verification.Method, "reverse_sms")
}

func TestSimChangeIsAwaited(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := ok(client.Verifications.Create(background, ringtrue.VerificationInput{
		PhoneNumber: number("00"), RedirectURL: redirectURL, SimSwapPeriod: 1440,
	}))(t)
	query := user.checkSilently(t, created.URL, redirectURL)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified", outcome.Verified, true)
	equal(t, "no SIM change", *outcome.Verification.NoSimChange, true)

	// The simulated operator answers at once. A slow one leaves the verification open.
	verification := func(status, more string) http.HandlerFunc {
		return body(fmt.Sprintf(`{"verification_id":"v","status":%q,"methods":[],"url":"http://page"%s}`, status, more))
	}
	waiting := verification("PENDING", `,"steps":[{"method":"secure_sna","status":"COMPLETED"},{"method":"sim_swap","status":"PENDING"}]`)
	s := startStub(t, waiting, waiting, verification("COMPLETED", `,"match":true,"no_sim_change":false`))
	query = url.Values{"verification_id": {"v"}, "code": {"c"}}
	outcome = ok(s.client(t).Verifications.Redeem(background, "v", query))(t)
	equal(t, "verified after the answer", outcome.Verified, true)
	equal(t, "requests", s.count(), 3)
}

func TestForeignReturnIsRejected(t *testing.T) {
	s := startStub(t, status(500))
	client := s.client(t)
	own := url.Values{"verification_id": {"own"}, "code": {"c"}}
	for name, attempt := range map[string]struct {
		session string
		query   url.Values
	}{
		"no session":      {"", own},
		"other session":   {"other", own},
		"no id":           {"own", url.Values{"code": {"c"}}},
		"empty ids":       {"", url.Values{"verification_id": {""}, "code": {"c"}}},
		"two ids":         {"own", url.Values{"verification_id": {"own", "other"}, "code": {"c"}}},
		"two codes":       {"own", url.Values{"verification_id": {"own"}, "code": {"c", "d"}}},
		"nil query":       {"own", nil},
		"prefix":          {"own", url.Values{"verification_id": {"ow"}, "code": {"c"}}},
		"other character": {"own", url.Values{"verification_id": {"Own"}, "code": {"c"}}},
	} {
		outcome, err := client.Verifications.Redeem(background, attempt.session, attempt.query)
		if outcome != nil {
			t.Errorf("%s: unexpected outcome %+v", name, outcome)
		}
		as[*ringtrue.ForeignReturnError](t, err)
	}
	equal(t, "requests", s.count(), 0)
}

func TestWrongCodeIsNotVerified(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := startVerification(t, client, number("00"))
	query := user.checkSilently(t, created.URL, redirectURL)
	forged := url.Values{"verification_id": query["verification_id"], "code": {"forged"}}
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, forged))(t)
	if outcome.Verified || outcome.Open || outcome.Reason != ringtrue.ReasonCodeInvalid {
		t.Errorf("unexpected outcome: %+v", outcome)
	}
	_, err := client.Verifications.RedeemCode(background, created.VerificationID, "forged")
	if !errors.Is(err, ringtrue.ErrCodeInvalid) {
		t.Errorf("got %v, want ErrCodeInvalid", err)
	}
	// A wrong code does not spoil the right one.
	equal(t, "verified", ok(client.Verifications.Redeem(background, created.VerificationID, query))(t).Verified, true)
}

func TestSandboxResultIsRefused(t *testing.T) {
	user := newBrowser()
	client := newClient(t, shared.BaseURL, shared.Project)
	created := startVerification(t, client, number("00"))
	query := user.checkSilently(t, created.URL, redirectURL)
	outcome, err := client.Verifications.Redeem(background, created.VerificationID, query)
	equal(t, "mode", as[*ringtrue.SandboxRefusedError](t, err).Mode, ringtrue.ModeSandbox)
	if outcome != nil {
		t.Errorf("unexpected outcome: %+v", outcome)
	}
	query.Set("code", "forged")
	_, err = client.Verifications.Redeem(background, created.VerificationID, query)
	as[*ringtrue.SandboxRefusedError](t, err)
	s := startStub(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"verification_id":"v","status":"COMPLETED","match":true}`)
	})
	_, err = s.client(t).Verifications.Redeem(background, "v", url.Values{"verification_id": {"v"}, "code": {"c"}})
	equal(t, "unknown mode", as[*ringtrue.SandboxRefusedError](t, err).Mode, "")
}

func TestOpenVerificationIsContinued(t *testing.T) {
	client := shared.client(t)
	created := startVerification(t, client, number("00"))
	// The browser claims an error, which proves nothing.
	query := url.Values{"verification_id": {created.VerificationID}, "error": {"given_up"}}
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	if !outcome.Open || outcome.URL != created.URL || outcome.Verified || outcome.Reason != "" {
		t.Errorf("unexpected outcome: %+v", outcome)
	}
}

func TestMismatchContinuesIfTheProjectFallsBack(t *testing.T) {
	management := shared.manager(t).Management
	project := ok(management.Projects.Create(background, shared.Workspace.WorkspaceID, ringtrue.ProjectInput{
		Name: "Fallback " + number(""),
		Configuration: &ringtrue.ProjectConfigurationInput{
			Verification: &ringtrue.VerificationConfigurationInput{FallBackOnMismatch: ringtrue.Ptr(true)},
		},
	}))(t)
	allowed := []ringtrue.AllowedNetworkInput{{NetworkID: "*", Products: []string{"secure_sna", "reverse_sms"}}}
	ok(management.AllowedNetworks.Replace(background, shared.Workspace.WorkspaceID, project.ProjectID, allowed))(t)
	first := project.Credentials[0]
	client := newClient(t, shared.BaseURL, credential{ClientID: first.ClientID, ClientSecret: first.ClientSecret}, ringtrue.AllowSandbox())
	user := newBrowser()
	created := startVerification(t, client, number("01"))
	query := user.checkSilently(t, created.URL, redirectURL)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "open", outcome.Open, true)
	equal(t, "url", outcome.URL, created.URL)
}

func TestUserWhoGivesUpIsNotVerified(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := startVerification(t, client, number("96"))
	user.navigate(t, http.MethodGet, created.URL, nil)
	user.navigate(t, http.MethodPost, created.URL+"/end", url.Values{"reason": {"give_up"}})
	query := user.returnQuery(t, created.URL, redirectURL)
	equal(t, "error of the query", query.Get("error"), "given_up")
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified", outcome.Verified, false)
	equal(t, "reason", outcome.Reason, ringtrue.ReasonGivenUp)
}

func TestCodeOfAnEndedVerificationIsNotVerified(t *testing.T) {
	client, user := shared.client(t), newBrowser()
	created := startVerification(t, client, number("00"))
	query := user.checkSilently(t, created.URL, redirectURL)
	ok(client.Verifications.Cancel(background, created.VerificationID))(t)
	outcome := ok(client.Verifications.Redeem(background, created.VerificationID, query))(t)
	equal(t, "verified", outcome.Verified, false)
	equal(t, "reason", outcome.Reason, ringtrue.ReasonCancelled)
	// A verification that ended in time, but not by this code.
	matched := body(`{"verification_id":"v","status":"COMPLETED","match":true}`)
	for _, refusal := range []http.HandlerFunc{problem(409, "check_not_ready"), problem(410, "check_expired")} {
		s := startStub(t, refusal, matched)
		outcome := ok(s.client(t).Verifications.Redeem(background, "v", url.Values{"verification_id": {"v"}, "code": {"c"}}))(t)
		equal(t, "verified by a refused code", outcome.Verified, false)
		equal(t, "reason", outcome.Reason, ringtrue.ReasonCodeInvalid)
	}
	expired := startStub(t, problem(410, "check_expired"), body(`{"verification_id":"v","status":"EXPIRED","error_code":"check_expired"}`))
	outcome = ok(expired.client(t).Verifications.Redeem(background, "v", url.Values{"verification_id": {"v"}, "code": {"c"}}))(t)
	equal(t, "reason", outcome.Reason, ringtrue.ReasonExpired)
}
