package ringtrue

import (
	"context"
	"net/http"
)

const (
	reverseSmsPath = "/v1/number-verification/reverse-sms-checks"
	secureSnaPath  = "/v1/number-verification/secure-sna-checks"
	discoveryPath  = "/v1/number-verification/discovery-checks"
	simSwapPath    = "/v1/sim-swap-checks"
)

// ReverseSms verifies a number by an SMS that the user sends.
type ReverseSms struct{ core *core }

// Create starts a check. Its result has the receiver and the text of the SMS, which no other call returns.
func (s *ReverseSms) Create(
	ctx context.Context, input ReverseSmsCheckInput, options ...CallOption,
) (*CreatedReverseSmsCheck, error) {
	return invoke[CreatedReverseSmsCheck](ctx, s.core, createCall(reverseSmsPath, ScopeReverseSms, input, options))
}

// Get reads a check.
func (s *ReverseSms) Get(ctx context.Context, checkID string, options ...CallOption) (*ReverseSmsCheck, error) {
	return get[ReverseSmsCheck](ctx, s.core, ScopeReverseSms, options, reverseSmsPath, checkID)
}

// List iterates over the project's checks.
func (s *ReverseSms) List(ctx context.Context, options ListOptions) *Iterator[ReverseSmsCheck] {
	return listAll[ReverseSmsCheck](ctx, s.core, listing{path: reverseSmsPath, scope: ScopeReverseSms}, options)
}

// Page reads one page of the project's checks, with the totals.
func (s *ReverseSms) Page(ctx context.Context, options ListOptions) (*Page[ReverseSmsCheck], error) {
	return listPage[ReverseSmsCheck](ctx, s.core, listing{path: reverseSmsPath, scope: ScopeReverseSms}, options)
}

// ResendCallback sends the callback of a check that has ended again.
func (s *ReverseSms) ResendCallback(
	ctx context.Context, checkID string, options ...CallOption,
) (*CallbackResend, error) {
	return resend[CallbackResend](ctx, s.core, ScopeReverseSms, options, reverseSmsPath, checkID)
}

// SecureSna verifies a device's number silently over mobile data.
type SecureSna struct{ core *core }

// Create starts a check. The device opens the URL of the result over mobile data.
func (s *SecureSna) Create(
	ctx context.Context, input SecureSnaCheckInput, options ...CallOption,
) (*CreatedSilentCheck, error) {
	return invoke[CreatedSilentCheck](ctx, s.core, createCall(secureSnaPath, ScopeSecureSna, input, options))
}

// Get reads a check.
func (s *SecureSna) Get(ctx context.Context, checkID string, options ...CallOption) (*SecureSnaCheck, error) {
	return get[SecureSnaCheck](ctx, s.core, ScopeSecureSna, options, secureSnaPath, checkID)
}

// List iterates over the project's checks.
func (s *SecureSna) List(ctx context.Context, options ListOptions) *Iterator[SecureSnaCheck] {
	return listAll[SecureSnaCheck](ctx, s.core, listing{path: secureSnaPath, scope: ScopeSecureSna}, options)
}

// Page reads one page of the project's checks, with the totals.
func (s *SecureSna) Page(ctx context.Context, options ListOptions) (*Page[SecureSnaCheck], error) {
	return listPage[SecureSnaCheck](ctx, s.core, listing{path: secureSnaPath, scope: ScopeSecureSna}, options)
}

// RedeemCode redeems the code that the device brought back, and returns the result. It is not retried: unlike a
// verification's, a check's code counts once. After a [ConnectionError], read the check.
func (s *SecureSna) RedeemCode(
	ctx context.Context, checkID, code string, options ...CallOption,
) (*SecureSnaCheck, error) {
	return redeemOnce[SecureSnaCheck](ctx, s.core, ScopeSecureSna, options, secureSnaPath, checkID, code)
}

// ResendCallback sends the callback of a check that has ended again.
func (s *SecureSna) ResendCallback(
	ctx context.Context, checkID string, options ...CallOption,
) (*CallbackResend, error) {
	return resend[CallbackResend](ctx, s.core, ScopeSecureSna, options, secureSnaPath, checkID)
}

// Discovery returns a device's number over mobile data.
type Discovery struct{ core *core }

// Create starts a check. The device opens the URL of the result over mobile data.
func (s *Discovery) Create(
	ctx context.Context, input DiscoveryCheckInput, options ...CallOption,
) (*CreatedSilentCheck, error) {
	return invoke[CreatedSilentCheck](ctx, s.core, createCall(discoveryPath, ScopeDiscovery, input, options))
}

// Get reads a check.
func (s *Discovery) Get(ctx context.Context, checkID string, options ...CallOption) (*DiscoveryCheck, error) {
	return get[DiscoveryCheck](ctx, s.core, ScopeDiscovery, options, discoveryPath, checkID)
}

// List iterates over the project's checks.
func (s *Discovery) List(ctx context.Context, options ListOptions) *Iterator[DiscoveryCheck] {
	return listAll[DiscoveryCheck](ctx, s.core, listing{path: discoveryPath, scope: ScopeDiscovery}, options)
}

// Page reads one page of the project's checks, with the totals.
func (s *Discovery) Page(ctx context.Context, options ListOptions) (*Page[DiscoveryCheck], error) {
	return listPage[DiscoveryCheck](ctx, s.core, listing{path: discoveryPath, scope: ScopeDiscovery}, options)
}

// RedeemCode redeems the code that the device brought back, and returns the device's number. It is not retried: unlike
// a verification's, a check's code counts once. After a [ConnectionError], read the check.
func (s *Discovery) RedeemCode(
	ctx context.Context, checkID, code string, options ...CallOption,
) (*DiscoveryCheck, error) {
	return redeemOnce[DiscoveryCheck](ctx, s.core, ScopeDiscovery, options, discoveryPath, checkID, code)
}

// ResendCallback sends the callback of a check that has ended again.
func (s *Discovery) ResendCallback(
	ctx context.Context, checkID string, options ...CallOption,
) (*CallbackResend, error) {
	return resend[CallbackResend](ctx, s.core, ScopeDiscovery, options, discoveryPath, checkID)
}

// SimSwap checks whether a number's SIM was changed recently.
type SimSwap struct{ core *core }

// Create asks the operator, which takes up to 15 seconds. The result is final.
func (s *SimSwap) Create(ctx context.Context, input SimSwapCheckInput, options ...CallOption) (*SimSwapCheck, error) {
	request := createCall(simSwapPath, ScopeSimSwap, input, options)
	request.asksOperator = true
	return invoke[SimSwapCheck](ctx, s.core, request)
}

// Get reads a check.
func (s *SimSwap) Get(ctx context.Context, checkID string, options ...CallOption) (*SimSwapCheck, error) {
	return get[SimSwapCheck](ctx, s.core, ScopeSimSwap, options, simSwapPath, checkID)
}

// List iterates over the project's checks.
func (s *SimSwap) List(ctx context.Context, options ListOptions) *Iterator[SimSwapCheck] {
	return listAll[SimSwapCheck](ctx, s.core, listing{path: simSwapPath, scope: ScopeSimSwap}, options)
}

// Page reads one page of the project's checks, with the totals.
func (s *SimSwap) Page(ctx context.Context, options ListOptions) (*Page[SimSwapCheck], error) {
	return listPage[SimSwapCheck](ctx, s.core, listing{path: simSwapPath, scope: ScopeSimSwap}, options)
}

// EligibilityLookup lists the products available for a number or a device.
type EligibilityLookup struct{ core *core }

// OfNumber lists the products available for a number in E.164 format.
func (e *EligibilityLookup) OfNumber(
	ctx context.Context, phoneNumber string, options ...CallOption,
) (*Eligibility, error) {
	return get[Eligibility](ctx, e.core, ScopeEligibility, options, "/v1/eligibility/phone-numbers", phoneNumber)
}

// OfAddress lists the products available for a device by its public IPv4 or IPv6 address.
func (e *EligibilityLookup) OfAddress(ctx context.Context, ip string, options ...CallOption) (*Eligibility, error) {
	return get[Eligibility](ctx, e.core, ScopeEligibility, options, "/v1/eligibility/device-ips", ip)
}

// Sandbox acts as the simulated phone of sandbox projects.
type Sandbox struct{ core *core }

// SendSms sends an SMS from the simulated phone. It is not retried: a repetition would be a second SMS.
func (s *Sandbox) SendSms(ctx context.Context, sms SandboxSms, options ...CallOption) error {
	_, _, err := s.core.send(ctx, call{
		method: http.MethodPost, path: "/v1/sandbox/inbound-sms", scope: ScopeReverseSms, body: sms, options: options,
	})
	return err
}

func redeemOnce[T any](
	ctx context.Context, c *core, scope Scope, options []CallOption, prefix, checkID, code string,
) (*T, error) {
	target, err := path(prefix, checkID)
	if err != nil {
		return nil, err
	}
	return invoke[T](ctx, c, call{
		method: http.MethodPost, path: target, scope: scope, body: Redemption{code}, options: options,
	})
}
