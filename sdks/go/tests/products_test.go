package tests

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ringtrue.example/ringtrue"
)

func sendSms(t *testing.T, client *ringtrue.Client, from, to, body string) {
	t.Helper()
	if err := client.Sandbox.SendSms(background, ringtrue.SandboxSms{From: from, To: to, Body: body}); err != nil {
		t.Fatal(err)
	}
}

func TestReverseSmsCheckCompletes(t *testing.T) {
	client, phone := shared.client(t), number("00")
	created := ok(client.ReverseSms.Create(background, ringtrue.ReverseSmsCheckInput{
		PhoneNumber: phone, ReferenceID: "order 1",
	}))(t)
	sendSms(t, client, phone, created.ReceiverPhoneNumber, created.ExpectedSmsBody)
	var check *ringtrue.ReverseSmsCheck
	waitFor(t, "the check completes", func() bool {
		check = ok(client.ReverseSms.Get(background, created.CheckID))(t)
		return check.Status == ringtrue.CheckStatusCompleted
	})
	equal(t, "match", *check.Match, true)
	equal(t, "reference", check.ReferenceID, "order 1")
	if check.UpdatedAt == nil || check.UpdatedAt.Before(check.CreatedAt) || created.TTL == 0 {
		t.Errorf("unexpected times: %+v", check)
	}
}

func TestSecureSnaCheckCompletes(t *testing.T) {
	client := shared.client(t)
	for ending, match := range map[string]bool{"00": true, "01": false} {
		created := ok(client.SecureSna.Create(background, ringtrue.SecureSnaCheckInput{PhoneNumber: number(ending)}))(t)
		check := ok(client.SecureSna.RedeemCode(background, created.CheckID, openOnDevice(t, created.URL)))(t)
		equal(t, "match", *check.Match, match)
		again := ok(client.SecureSna.Get(background, created.CheckID))(t)
		equal(t, "match of the read", *again.Match, match)
	}
	created := ok(client.SecureSna.Create(background, ringtrue.SecureSnaCheckInput{PhoneNumber: number("02")}))(t)
	openOnDevice(t, created.URL)
	_, err := client.SecureSna.RedeemCode(background, created.CheckID, "wrong")
	if !errors.Is(err, ringtrue.ErrCodeInvalid) {
		t.Errorf("got %v, want ErrCodeInvalid", err)
	}
}

func TestDiscoveryCheckReturnsNumber(t *testing.T) {
	client, phone := shared.client(t), number("00")
	created := ok(client.Discovery.Create(background, ringtrue.DiscoveryCheckInput{}))(t)
	code := openOnDevice(t, created.URL+"&sim=%2B"+strings.TrimPrefix(phone, "+"))
	check := ok(client.Discovery.RedeemCode(background, created.CheckID, code))(t)
	equal(t, "number", check.PhoneNumber, phone)
	equal(t, "status of the read", ok(client.Discovery.Get(background, created.CheckID))(t).Status, "COMPLETED")
}

func TestSimSwapCheckReportsChange(t *testing.T) {
	client := shared.client(t)
	check := ok(client.SimSwap.Create(background, ringtrue.SimSwapCheckInput{PhoneNumber: number("01"), Period: 2880}))(t)
	equal(t, "no change", *check.NoSimChange, false)
	equal(t, "change within", *check.SimChangeWithin, 1440)
	again := ok(client.SimSwap.Get(background, check.CheckID))(t)
	equal(t, "period", *again.NoSimChangePeriod, 2880)
}

func TestEligibility(t *testing.T) {
	client := shared.client(t)
	equal(t, "products of a number", len(ok(client.Eligibility.OfNumber(background, number("00")))(t).Products), 4)
	equal(t, "products of an address", len(ok(client.Eligibility.OfAddress(background, "203.0.113.200"))(t).Products), 0)
	_, err := client.Eligibility.OfNumber(background, number("94"))
	if !errors.Is(err, ringtrue.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	equal(t, "code", as[*ringtrue.APIError](t, err).ErrorCode, ringtrue.ErrorCodeSubscriberNotFound)
}

func TestVerificationWithoutThePage(t *testing.T) {
	client, phone := shared.client(t), number("00")
	created := ok(client.Verifications.Create(background, ringtrue.VerificationInput{
		PhoneNumber: phone, Methods: []string{ringtrue.VerificationMethodSecureSna, ringtrue.VerificationMethodReverseSms},
	}))(t)
	equal(t, "first method", created.NextStep.Method, ringtrue.VerificationMethodSecureSna)
	next := ok(client.Verifications.Next(background, created.VerificationID, ringtrue.VerificationMethodSecureSna))(t)
	equal(t, "second method", next.NextStep.Method, ringtrue.VerificationMethodReverseSms)
	if !strings.HasPrefix(next.NextStep.SmsLink, "sms:") {
		t.Errorf("unexpected link %q", next.NextStep.SmsLink)
	}
	sendSms(t, client, phone, next.NextStep.ReceiverPhoneNumber, next.NextStep.ExpectedSmsBody)
	waitFor(t, "the verification completes", func() bool {
		verification := ok(client.Verifications.Get(background, created.VerificationID))(t)
		return verification.Match != nil && *verification.Match && verification.Method == "reverse_sms"
	})
}

func TestVerificationIsRedeemedAndCancelled(t *testing.T) {
	client := shared.client(t)
	created := ok(client.Verifications.Create(background, ringtrue.VerificationInput{PhoneNumber: number("00")}))(t)
	code := openOnDevice(t, created.NextStep.URL)
	equal(t, "match", *ok(client.Verifications.RedeemCode(background, created.VerificationID, code))(t).Match, true)
	created = ok(client.Verifications.Create(background, ringtrue.VerificationInput{PhoneNumber: number("00")}))(t)
	for range []int{1, 2} {
		cancelled := ok(client.Verifications.Cancel(background, created.VerificationID))(t)
		equal(t, "error code", cancelled.ErrorCode, ringtrue.EndedVerificationErrorCodeCancelled)
	}
}

func TestIdempotencyKeyRepeatsTheResult(t *testing.T) {
	client := shared.client(t)
	input := ringtrue.VerificationInput{PhoneNumber: number("00")}
	var info ringtrue.ResponseInfo
	key := ringtrue.WithIdempotencyKey("go-" + input.PhoneNumber)
	first := ok(client.Verifications.Create(background, input, key))(t)
	second := ok(client.Verifications.Create(background, input, key, ringtrue.CaptureResponse(&info)))(t)
	equal(t, "id", second.VerificationID, first.VerificationID)
	equal(t, "replayed", info.IsReplayed, true)
	equal(t, "mode", info.Mode, ringtrue.ModeSandbox)
	input.ReferenceID = "other"
	_, err := client.Verifications.Create(background, input, key)
	equal(t, "code", as[*ringtrue.APIError](t, err).ErrorCode, ringtrue.ErrorCodeIdempotencyKeyReused)
	_, err = client.Verifications.Create(background, input, ringtrue.WithIdempotencyKey("with space"))
	as[*ringtrue.ArgumentError](t, err)
}

func TestErrorsAreTypedAndFreeOfNumbers(t *testing.T) {
	client := shared.client(t)
	for _, phone := range []string{number("97"), "+4930123456x"} {
		_, err := client.ReverseSms.Create(background, ringtrue.ReverseSmsCheckInput{PhoneNumber: phone})
		failure := as[*ringtrue.APIError](t, err)
		equal(t, "status", failure.Status, 400)
		if failure.RequestID == "" || failure.Title == "" || failure.Detail == "" || failure.Type == "" {
			t.Errorf("incomplete error: %+v", failure)
		}
		if text := err.Error(); strings.Contains(text, phone[1:10]) || !strings.Contains(text, failure.RequestID) {
			t.Errorf("unexpected text %q", text)
		}
		var base ringtrue.Error
		equal(t, "is an Error", errors.As(err, &base), true)
	}
	for _, id := range []string{"", ".", "..", "../secure-sna-checks", "no id"} {
		if _, err := client.ReverseSms.Get(background, id); err == nil {
			t.Errorf("id %q was accepted", id)
		}
	}
	_, err := client.ReverseSms.Get(background, "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b")
	if !errors.Is(err, ringtrue.ErrNotFound) || errors.Is(err, ringtrue.ErrRateLimited) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestIteratorReadsAllPages(t *testing.T) {
	client, reference := shared.client(t), "pages-"+number("00")
	const count = 7
	// The steps of the verifications are the Reverse SMS checks.
	for n := 0; n < count; n++ {
		ok(client.SimSwap.Create(background, ringtrue.SimSwapCheckInput{PhoneNumber: number("00"), ReferenceID: reference}))(t)
		ok(client.Verifications.Create(background, ringtrue.VerificationInput{PhoneNumber: number("96"), ReferenceID: reference, Methods: []string{"reverse_sms"}}))(t)
		ok(client.SecureSna.Create(background, ringtrue.SecureSnaCheckInput{PhoneNumber: number("00"), ReferenceID: reference}))(t)
		ok(client.Discovery.Create(background, ringtrue.DiscoveryCheckInput{ReferenceID: reference}))(t)
	}
	options := ringtrue.ListOptions{Search: ringtrue.Field("reference_id").Eq(reference), Size: 3}
	seen := map[string]bool{}
	add := func(id string) { seen[id] = true }
	for _, check := range ok(client.SimSwap.List(background, options).All())(t) {
		add(check.CheckID)
	}
	for _, check := range ok(client.Verifications.List(background, options).All())(t) {
		add(check.VerificationID)
	}
	for _, check := range ok(client.ReverseSms.List(background, options).All())(t) {
		add(check.CheckID)
	}
	for _, check := range ok(client.SecureSna.List(background, options).All())(t) {
		add(check.CheckID)
	}
	checks := client.Discovery.List(background, options)
	for checks.Next() {
		add(checks.Item().CheckID)
	}
	if checks.Err() != nil || checks.Next() {
		t.Errorf("the iterator did not end: %v", checks.Err())
	}
	equal(t, "different items", len(seen), 5*count)

	options.Page = 2
	page := ok(client.SimSwap.Page(background, options))(t)
	equal(t, "page", page.Page, ringtrue.PageInfo{Size: 3, Number: 2, TotalPages: 3, TotalElements: count})
	equal(t, "items from the second page", len(ok(client.SimSwap.List(background, options).All())(t)), count-3)
	for _, count := range []int{
		len(ok(client.Verifications.Page(background, options))(t).Content),
		len(ok(client.ReverseSms.Page(background, options))(t).Content),
		len(ok(client.SecureSna.Page(background, options))(t).Content),
		len(ok(client.Discovery.Page(background, options))(t).Content),
	} {
		equal(t, "items on a page", count, 3)
	}
	invalid := client.SimSwap.List(background, ringtrue.ListOptions{Search: ringtrue.RSQL("status=like=x")})
	equal(t, "next", invalid.Next(), false)
	equal(t, "code", as[*ringtrue.APIError](t, invalid.Err()).ErrorCode, ringtrue.ErrorCodeSearchInvalid)
}

func TestSearchFindsQuotedValues(t *testing.T) {
	client := shared.client(t)
	prefix := number("")[8:]
	texts := []string{
		"order-1", "two words", "it's", `"quoted"`, `both ' and "`, `back\slash`, `a\"b`, `ends in \`, "a,b;c", "(x)", "a=b",
		"!~<>", "%_", "and", "or", "ü漢🙂", "with*star", "withXstar", "*", `\*`,
	}
	field := ringtrue.Field("reference_id")
	count := func(filter ringtrue.Filter) int {
		t.Helper()
		return ok(client.SimSwap.Page(background, ringtrue.ListOptions{Search: filter, Size: 1}))(t).Page.TotalElements
	}
	start := time.Now().Add(-time.Hour)
	for _, text := range texts {
		ok(client.SimSwap.Create(background, ringtrue.SimSwapCheckInput{PhoneNumber: number("00"), ReferenceID: prefix + text}))(t)
	}
	all := field.Like(prefix + "*")
	equal(t, "all", count(all), len(texts))
	for _, text := range texts {
		equal(t, "Eq "+text, count(field.Eq(prefix+text)), 1)
		equal(t, "Ne "+text, count(all.And(field.Ne(prefix+text))), len(texts)-1)
		equal(t, "In "+text, count(field.In(prefix+text, "none")), 1)
		equal(t, "Out "+text, count(all.And(field.Out(prefix+text, "none"))), len(texts)-1)
		equal(t, "Ge and Le "+text, count(field.Ge(prefix+text).And(field.Le(prefix+text))), 1)
	}
	equal(t, "Like", count(field.Like(prefix+"with*star")), 2)
	equal(t, "Like with quotes", count(field.Like(prefix+`*"*`)), 3)
	equal(t, "NotLike", count(all.And(field.NotLike(prefix+"with*star"))), len(texts)-2)
	created := ringtrue.Field("created_at")
	equal(t, "after", count(all.And(created.Gt(start))), len(texts))
	equal(t, "before", count(all.And(created.Lt(start))), 0)
	completed, changed := ringtrue.Field("status").Eq("COMPLETED"), ringtrue.Field("no_sim_change").Eq(false)
	equal(t, "and", count(all.And(completed, changed)), 0)
	equal(t, "and of or", count(all.And(completed.Or(changed))), len(texts))
	equal(t, "or of and", count(all.And(changed).Or(all.And(completed))), len(texts))
	equal(t, "raw in and", count(all.And(ringtrue.RSQL("no_sim_change==false,status==COMPLETED"))), len(texts))
	equal(t, "empty filter in and", all.And(ringtrue.Filter{}).String(), all.String())
	equal(t, "empty filter in or", all.Or(ringtrue.Filter{}).String(), "")
	equal(t, "number", ringtrue.Field("n").Eq(7).String(), `n=="7"`)
	equal(t, "time", ringtrue.Field("n").Eq(ringtrue.Ptr(time.Unix(0, 5e8))).String(), `n=="1970-01-01T00:00:00.5Z"`)
}

func TestManagement(t *testing.T) {
	management, workspace := shared.manager(t).Management, shared.Workspace.WorkspaceID
	equal(t, "workspaces", ok(management.Workspaces.Page(background, ringtrue.PageOptions{}))(t).Page.TotalElements, 1)
	equal(t, "workspace", ok(management.Workspaces.List(background, ringtrue.PageOptions{}).All())(t)[0].WorkspaceID, workspace)

	var info ringtrue.ResponseInfo
	before := ok(management.Workspaces.Get(background, workspace, ringtrue.CaptureResponse(&info)))(t)
	renamed := ok(management.Workspaces.Update(background, workspace, ringtrue.WorkspacePatch{Name: before.Name + " 2"}, ringtrue.WithIfMatch(info.ETag)))(t)
	equal(t, "name", renamed.Name, before.Name+" 2")
	_, err := management.Workspaces.Update(background, workspace, ringtrue.WorkspacePatch{Name: "late"}, ringtrue.WithIfMatch(info.ETag))
	equal(t, "status", as[*ringtrue.APIError](t, err).Status, 412)

	project := ok(management.Projects.Create(background, workspace, ringtrue.ProjectInput{
		Name: "Go " + number(""),
		Configuration: &ringtrue.ProjectConfigurationInput{
			ReverseSms:   &ringtrue.ReverseSmsConfiguration{TTL: 120, AutoReply: ringtrue.Ptr(true)},
			Verification: &ringtrue.VerificationConfigurationInput{Brand: &ringtrue.Brand{Name: "Shop"}},
		},
		Products: &[]string{},
	}))(t)
	equal(t, "no products", len(project.Products), 0)
	equal(t, "credentials", len(project.Credentials), 1)
	updated := ok(management.Projects.Update(background, workspace, project.ProjectID, ringtrue.ProjectPatch{
		Products: &[]string{"reverse_sms", "verification"},
		Configuration: ringtrue.Set(ringtrue.ProjectConfigurationPatch{
			ReverseSms: ringtrue.Set(ringtrue.ReverseSmsConfigurationPatch{TTL: ringtrue.Null[int](), Prefix: ringtrue.Set("HELLO")}),
			Verification: ringtrue.Set(ringtrue.VerificationConfigurationPatch{
				FallBackOnMismatch: ringtrue.Set(true), Brand: ringtrue.Null[ringtrue.BrandPatch](),
			}),
		}),
	}))(t)
	configuration := updated.Configuration
	equal(t, "products", fmt.Sprint(updated.Products), "[reverse_sms verification]")
	equal(t, "reset", configuration.ReverseSms.TTL, 0)
	equal(t, "kept", *configuration.ReverseSms.AutoReply, true)
	equal(t, "set", configuration.ReverseSms.Prefix, "HELLO")
	equal(t, "set in verification", *configuration.Verification.FallBackOnMismatch, true)
	equal(t, "removed", configuration.Verification.Brand, nil)
	equal(t, "read", ok(management.Projects.Get(background, workspace, project.ProjectID))(t).Name, project.Name)
	options := ringtrue.ListOptions{Search: ringtrue.Field("name").Eq(project.Name)}
	equal(t, "found", len(ok(management.Projects.List(background, workspace, options).All())(t)), 1)
	equal(t, "page", ok(management.Projects.Page(background, workspace, options))(t).Page.TotalElements, 1)

	networks := ok(management.Networks(background, ringtrue.NetworkOptions{PageOptions: ringtrue.PageOptions{Size: 2}}).All())(t)
	total := ok(management.NetworksPage(background, ringtrue.NetworkOptions{}))(t).Page.TotalElements
	equal(t, "networks", len(networks), total)
	equal(t, "networks of no country", len(ok(management.Networks(background, ringtrue.NetworkOptions{CountryCode: "GB"}).All())(t)), 0)
	allowed := []ringtrue.AllowedNetworkInput{{NetworkID: "*", Products: []string{"reverse_sms"}}}
	replaced := ok(management.AllowedNetworks.Replace(background, workspace, project.ProjectID, allowed))(t)
	equal(t, "allowed", replaced.Networks[0].NetworkID, "*")
	ok(management.AllowedNetworks.Replace(background, workspace, project.ProjectID, nil))(t)
	equal(t, "none allowed", len(ok(management.AllowedNetworks.Get(background, workspace, project.ProjectID))(t).Networks), 0)

	usage := ok(management.Usage(background, workspace, ringtrue.UsageOptions{
		GroupBy: ringtrue.GroupByHour, From: time.Now().Add(-2 * time.Hour), To: time.Now(), ProjectID: project.ProjectID,
	}))(t)
	equal(t, "usage", usage.GroupBy, ringtrue.GroupByHour)
	events := ok(management.AuditEvents.List(background, workspace, ringtrue.PageOptions{Size: 5}).All())(t)
	page := ok(management.AuditEvents.Page(background, workspace, ringtrue.PageOptions{Size: 1}))(t)
	if len(events) < 4 || page.Page.TotalElements < len(events) {
		t.Errorf("too few audit events: %d of %d", len(events), page.Page.TotalElements)
	}
}

func TestRequestsAreLogged(t *testing.T) {
	client, requests := shared.client(t), shared.manager(t).Management.Requests
	_, err := client.ReverseSms.Create(background, ringtrue.ReverseSmsCheckInput{PhoneNumber: "1"})
	failure := as[*ringtrue.APIError](t, err)
	options := ringtrue.RequestOptions{Status: "4xx", ErrorCode: failure.ErrorCode, RequestID: failure.RequestID}
	workspace, project := shared.Workspace.WorkspaceID, shared.Project.ProjectID
	waitFor(t, "the request is logged", func() bool {
		return ok(requests.Page(background, workspace, project, options))(t).Page.TotalElements == 1
	})
	logged := ok(requests.List(background, workspace, project, options).All())(t)
	equal(t, "status", logged[0].Status, 400)
}

func TestProjectGoesLiveByForce(t *testing.T) {
	projects, workspace := shared.manager(t).Management.Projects, shared.Workspace.WorkspaceID
	project := ok(projects.Create(background, workspace, ringtrue.ProjectInput{
		Name: "Live " + number(""),
		Configuration: &ringtrue.ProjectConfigurationInput{
			Callbacks: &ringtrue.CallbackConfiguration{RetryFor: ringtrue.Ptr(3600)},
		},
	}))(t)
	equal(t, "retried for", *project.Configuration.Callbacks.RetryFor, 3600)
	live := ringtrue.ProjectPatch{
		Mode: ringtrue.ModeLive,
		Configuration: ringtrue.Set(ringtrue.ProjectConfigurationPatch{
			Callbacks: ringtrue.Set(ringtrue.CallbackConfigurationPatch{RetryFor: ringtrue.Null[int]()}),
		}),
	}
	_, err := projects.Update(background, workspace, project.ProjectID, live)
	equal(t, "code", as[*ringtrue.APIError](t, err).ErrorCode, ringtrue.ErrorCodeProjectNotReady)
	updated := ok(projects.Update(background, workspace, project.ProjectID, live, ringtrue.WithForce()))(t)
	equal(t, "mode", updated.Mode, ringtrue.ModeLive)
	equal(t, "credentials", len(updated.Credentials), 1)
	equal(t, "reset", updated.Configuration.Callbacks.RetryFor, nil)
}

func TestCallbacksAreListed(t *testing.T) {
	client, callbacks := shared.client(t), shared.manager(t).Management.Callbacks
	receiver := httptest.NewServer(status(http.StatusServiceUnavailable))
	defer receiver.Close()
	ids := map[string]bool{}
	for range []int{1, 2, 3} {
		ids[completeReverseSms(t, client, receiver.URL+"/callbacks")] = true
	}
	workspace, project := shared.Workspace.WorkspaceID, shared.Project.ProjectID
	options := ringtrue.CallbackOptions{
		State: "retrying", Product: "reverse_sms", Receiver: strings.TrimPrefix(receiver.URL, "http://"),
		PageOptions: ringtrue.PageOptions{Size: 2},
	}
	waitFor(t, "all callbacks have failed once", func() bool {
		return ok(callbacks.Page(background, workspace, project, options))(t).Page.TotalElements == len(ids)
	})
	deliveries := ok(callbacks.List(background, workspace, project, options).All())(t)
	equal(t, "deliveries on two pages", len(deliveries), len(ids))
	for _, delivery := range deliveries {
		equal(t, "id", ids[delivery.CheckID], true)
		equal(t, "state", delivery.State, "waiting")
		equal(t, "result", delivery.LastResult, "503")
		equal(t, "receiver", delivery.Receiver, options.Receiver)
		if delivery.Attempts < 1 || delivery.NextAttemptAt == nil || delivery.LastAttemptAt == nil {
			t.Errorf("incomplete delivery: %+v", delivery)
		}
	}
	options.Product = "verification"
	equal(t, "of another product", len(ok(callbacks.List(background, workspace, project, options).All())(t)), 0)
	_, err := callbacks.Page(background, workspace, project, ringtrue.CallbackOptions{State: "lost"})
	equal(t, "status", as[*ringtrue.APIError](t, err).Status, 400)
}

func TestDeletedCredentialIsRejected(t *testing.T) {
	management := shared.manager(t).Management
	workspace, project := shared.Workspace.WorkspaceID, shared.Project.ProjectID
	end := time.Now().Add(time.Hour)
	created := ok(management.ProjectCredentials.Create(background, workspace, project, ringtrue.ProjectCredentialInput{
		Scopes: []string{"sim_swap", "eligibility"}, ExpiresAt: &end,
	}))(t)
	client := newClient(t, shared.BaseURL, credential{ClientID: created.ClientID, ClientSecret: created.ClientSecret})
	ok(client.SimSwap.Page(background, ringtrue.ListOptions{}))(t)
	equal(t, "scopes", len(ok(management.ProjectCredentials.Get(background, workspace, project, created.ClientID))(t).Scopes), 2)
	_, err := client.Verifications.Page(background, ringtrue.ListOptions{})
	equal(t, "code of the token endpoint", as[*ringtrue.APIError](t, err).ErrorCode, ringtrue.ErrorCodeInvalidScope)

	if err := management.ProjectCredentials.Delete(background, workspace, project, created.ClientID); err != nil {
		t.Fatal(err)
	}
	_, err = client.SimSwap.Page(background, ringtrue.ListOptions{})
	if !errors.Is(err, ringtrue.ErrAuthentication) {
		t.Errorf("got %v, want ErrAuthentication", err)
	}
	if strings.Contains(err.Error(), created.ClientSecret) || strings.Contains(fmt.Sprintf("%+v %#v", client, client), created.ClientSecret) {
		t.Error("the secret is shown")
	}
	all := ok(management.ProjectCredentials.List(background, workspace, project, ringtrue.PageOptions{Size: 1}).All())(t)
	equal(t, "page", ok(management.ProjectCredentials.Page(background, workspace, project, ringtrue.PageOptions{}))(t).Page.TotalElements, len(all))
}

func TestWorkspaceCredentials(t *testing.T) {
	credentials, workspace := shared.manager(t).Management.WorkspaceCredentials, shared.Workspace.WorkspaceID
	created := ok(credentials.Create(background, workspace, ringtrue.WorkspaceCredentialInput{}))(t)
	other := newClient(t, shared.BaseURL, credential{ClientID: created.ClientID, ClientSecret: created.ClientSecret})
	ok(other.Management.Workspaces.Get(background, workspace))(t)
	equal(t, "id", ok(credentials.Get(background, workspace, created.ClientID))(t).ClientID, created.ClientID)
	all := ok(credentials.List(background, workspace, ringtrue.PageOptions{Size: 1}).All())(t)
	equal(t, "page", ok(credentials.Page(background, workspace, ringtrue.PageOptions{}))(t).Page.TotalElements, len(all))
	if err := credentials.Delete(background, workspace, created.ClientID); err != nil {
		t.Fatal(err)
	}
	_, err := other.Management.Workspaces.Get(background, workspace)
	equal(t, "rejected", errors.Is(err, ringtrue.ErrAuthentication), true)
}
