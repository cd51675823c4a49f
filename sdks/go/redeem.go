package ringtrue

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"
)

const (
	// simAnswerTimeout is how long Redeem waits for an operator's answer about a SIM change.
	simAnswerTimeout = 15 * time.Second
	simPollInterval  = time.Second
)

// Reasons of an [Outcome] that is not verified. More may appear: they are also the error codes of verifications.
const (
	// ReasonNoMatch: the phone or the sender has another number.
	ReasonNoMatch = "no_match"
	// ReasonExpired: the time was up.
	ReasonExpired = "expired"
	// ReasonGivenUp: the user cannot continue.
	ReasonGivenUp = "given_up"
	// ReasonWrongNumber: the user says that the number is not theirs.
	ReasonWrongNumber = "wrong_number"
	// ReasonCancelled: your backend cancelled the verification.
	ReasonCancelled = "cancelled"
	// ReasonMethodsExhausted: every method failed without a verdict.
	ReasonMethodsExhausted = "methods_exhausted"
	// ReasonInternalError: the service could not finish the verification.
	ReasonInternalError = "internal_error"
	// ReasonCodeInvalid: the code is wrong, or belongs to a step that has ended.
	ReasonCodeInvalid = "code_invalid"
	// ReasonCodeMissing: the verification has a match, but the browser did not bring the code that proves who got it.
	ReasonCodeMissing = "code_missing"
)

// Outcome is what a user's return proves.
type Outcome struct {
	// Verified: the number belongs to the user of this session. True only after a code was redeemed, with the status
	// COMPLETED and a match. If you asked for a SIM change, also read Verification.NoSimChange.
	Verified bool
	// Open: the verification continues. Send the browser to URL.
	Open bool
	// URL is the hosted page of an open verification.
	URL string
	// Reason says why the number is not verified. Empty if Verified or Open.
	Reason string
	// Verification is the verification itself.
	Verification *Verification
	// IsReplayed: the code was redeemed before, for example because the user reloaded the page.
	IsReplayed bool
}

// Redeem handles the user's return to your redirect URL. The first argument is the VerificationID that you stored in
// the user's session, empty if there is none. The second is the query of the request: `request.URL.Query()`.
//
// It fails with a [ForeignReturnError], before any request, if the return does not belong to the session. It redeems
// the code, and waits up to 15 seconds for an operator that is asked about a SIM change. Without a code, it reads the
// verification, because what a browser says proves nothing: the outcome is then never verified. Nor is it with a wrong
// code, which is [ReasonCodeInvalid] and not an error. It fails with a [SandboxRefusedError] if the project is not live,
// unless the client has [AllowSandbox].
func (v *Verifications) Redeem(ctx context.Context, sessionVerificationID string, query url.Values) (*Outcome, error) {
	if sessionVerificationID == "" {
		return nil, &ForeignReturnError{"the session has no verification"}
	}
	ids, codes := query["verification_id"], query["code"]
	if len(ids) != 1 || len(codes) > 1 {
		return nil, &ForeignReturnError{"the query does not have one verification_id and at most one code"}
	}
	if ids[0] != sessionVerificationID {
		return nil, &ForeignReturnError{"the session has another verification"}
	}
	verification, info, refusal, err := v.redeemOrRead(ctx, sessionVerificationID, query.Get("code"))
	if err != nil {
		return nil, err
	}
	if info.Mode != ModeLive && !v.core.allowSandbox {
		return nil, &SandboxRefusedError{info.Mode}
	}
	if refusal == refusedAsWrong {
		return &Outcome{Reason: ReasonCodeInvalid, Verification: verification}, nil
	}
	if verification, err = v.awaitSimAnswer(ctx, verification); err != nil {
		return nil, err
	}
	return newOutcome(verification, refusal, info.IsReplayed), nil
}

// refusal says why a return has no redeemed code.
type refusal int

const (
	notRefused refusal = iota
	// withoutCode: the return has no code.
	withoutCode
	// refusedAsWrong: the code is wrong, whatever has become of the verification.
	refusedAsWrong
	// refusedAsOver: the verification has ended, or has continued with another method.
	refusedAsOver
)

// redeemOrRead redeems the code. Without one, or if the service refuses it, it reads the verification.
func (v *Verifications) redeemOrRead(
	ctx context.Context, verificationID, code string,
) (*Verification, *ResponseInfo, refusal, error) {
	reason := withoutCode
	if code != "" {
		verification, info, err := v.redeemCode(ctx, verificationID, code, nil)
		if reason = refusalOf(err); reason == notRefused {
			return verification, info, notRefused, err
		}
	}
	var info ResponseInfo
	verification, err := v.Get(ctx, verificationID, CaptureResponse(&info))
	return verification, &info, reason, err
}

func refusalOf(err error) refusal {
	var failure *APIError
	switch {
	case errors.Is(err, ErrCodeInvalid):
		return refusedAsWrong
	case errors.As(err, &failure) && (failure.Status == http.StatusConflict || failure.Status == http.StatusGone):
		return refusedAsOver
	}
	return notRefused
}

// awaitSimAnswer reads a verification again while nothing but an operator's answer is missing.
func (v *Verifications) awaitSimAnswer(ctx context.Context, verification *Verification) (*Verification, error) {
	for deadline := time.Now().Add(simAnswerTimeout); awaitsSimAnswer(verification) && time.Now().Before(deadline); {
		if !sleep(ctx, simPollInterval) {
			return nil, &ConnectionError{Err: ctx.Err()}
		}
		var err error
		if verification, err = v.Get(ctx, verification.VerificationID); err != nil {
			return nil, err
		}
	}
	return verification, nil
}

func awaitsSimAnswer(verification *Verification) bool {
	if !isOpen(verification.Status) || len(verification.Steps) == 0 {
		return false
	}
	last := verification.Steps[len(verification.Steps)-1]
	return last.Method == ScopeSimSwap && isOpen(last.Status)
}

func isOpen(status CheckStatus) bool {
	return status == CheckStatusAccepted || status == CheckStatusPending
}

func newOutcome(verification *Verification, refusal refusal, isReplayed bool) *Outcome {
	outcome := &Outcome{Verification: verification, IsReplayed: isReplayed}
	isMatch := verification.Match != nil && *verification.Match
	switch {
	case isOpen(verification.Status):
		outcome.Open, outcome.URL = true, verification.URL
	case verification.Status == CheckStatusExpired:
		outcome.Reason = ReasonExpired
	case verification.Status != CheckStatusCompleted && verification.ErrorCode == "":
		outcome.Reason = ReasonInternalError
	case verification.Status != CheckStatusCompleted:
		outcome.Reason = verification.ErrorCode
	case !isMatch:
		outcome.Reason = ReasonNoMatch
	case refusal == withoutCode:
		outcome.Reason = ReasonCodeMissing
	case refusal != notRefused:
		outcome.Reason = ReasonCodeInvalid
	default:
		outcome.Verified = true
	}
	return outcome
}
