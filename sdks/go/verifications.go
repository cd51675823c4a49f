package ringtrue

import (
	"context"
	"net/http"
)

const verificationsPath = "/v1/verifications"

// Verifications verifies numbers by the best method available, with a hosted page for the user.
type Verifications struct{ core *core }

// Create starts a verification. Send the user's browser to the URL of the result, and keep its VerificationID in the
// session for Redeem.
func (v *Verifications) Create(
	ctx context.Context, input VerificationInput, options ...CallOption,
) (*CreatedVerification, error) {
	return invoke[CreatedVerification](ctx, v.core, createCall(verificationsPath, ScopeVerification, input, options))
}

// Get reads a verification.
func (v *Verifications) Get(ctx context.Context, verificationID string, options ...CallOption) (*Verification, error) {
	return get[Verification](ctx, v.core, ScopeVerification, options, verificationsPath, verificationID)
}

// List iterates over the project's verifications.
func (v *Verifications) List(ctx context.Context, options ListOptions) *Iterator[Verification] {
	return listAll[Verification](ctx, v.core, listing{path: verificationsPath, scope: ScopeVerification}, options)
}

// Page reads one page of the project's verifications, with the totals.
func (v *Verifications) Page(ctx context.Context, options ListOptions) (*Page[Verification], error) {
	return listPage[Verification](ctx, v.core, listing{path: verificationsPath, scope: ScopeVerification}, options)
}

// Next gives up the current step and starts the next method, for example for a device without mobile data. With a
// method, it gives the step up only if that is the current one; otherwise pass an empty text.
func (v *Verifications) Next(
	ctx context.Context, verificationID string, method VerificationMethod, options ...CallOption,
) (*Verification, error) {
	target, err := path(verificationsPath, verificationID)
	if err != nil {
		return nil, err
	}
	request := createCall(target+"/next", ScopeVerification, NextStepInput{Method: method}, options)
	return invoke[Verification](ctx, v.core, request)
}

// Cancel ends an open verification at once. One that has ended is returned unchanged: read its Status.
func (v *Verifications) Cancel(
	ctx context.Context, verificationID string, options ...CallOption,
) (*Verification, error) {
	target, err := path(verificationsPath, verificationID)
	if err != nil {
		return nil, err
	}
	return invoke[Verification](ctx, v.core, call{
		method: http.MethodPost, path: target + "/cancel", scope: ScopeVerification, isRetryable: true, options: options,
	})
}

// ResendCallback sends the callback of a verification that has ended again.
func (v *Verifications) ResendCallback(
	ctx context.Context, verificationID string, options ...CallOption,
) (*VerificationCallbackResend, error) {
	return resend[VerificationCallbackResend](ctx, v.core, ScopeVerification, options, verificationsPath, verificationID)
}

// RedeemCode redeems a code without the checks of Redeem, for apps with their own screens. Accept the code only from
// the session in which you created the verification, and see [CaptureResponse] for the project's mode.
func (v *Verifications) RedeemCode(
	ctx context.Context, verificationID, code string, options ...CallOption,
) (*Verification, error) {
	verification, _, err := v.redeemCode(ctx, verificationID, code, options)
	return verification, err
}

func (v *Verifications) redeemCode(
	ctx context.Context, verificationID, code string, options []CallOption,
) (*Verification, *ResponseInfo, error) {
	target, err := path(verificationsPath, verificationID)
	if err != nil {
		return nil, nil, err
	}
	return invokeInfo[Verification](ctx, v.core, call{
		method: http.MethodPost, path: target, scope: ScopeVerification, body: Redemption{code},
		isRetryable: true, asksOperator: true, options: options,
	})
}

// createCall is a POST that can be repeated because of its idempotency key.
func createCall(path string, scope Scope, body any, options []CallOption) call {
	return call{
		method: http.MethodPost, path: path, scope: scope, body: body,
		isRetryable: true, isKeyed: true, options: options,
	}
}

func get[T any](
	ctx context.Context, c *core, scope Scope, options []CallOption, prefix string, segments ...string,
) (*T, error) {
	target, err := path(prefix, segments...)
	if err != nil {
		return nil, err
	}
	return invoke[T](ctx, c, call{
		method: http.MethodGet, path: target, scope: scope, isRetryable: true, options: options,
	})
}

func resend[T any](
	ctx context.Context, c *core, scope Scope, options []CallOption, prefix, id string,
) (*T, error) {
	target, err := path(prefix, id)
	if err != nil {
		return nil, err
	}
	return invoke[T](ctx, c, createCall(target+"/callback-resends", scope, nil, options))
}
