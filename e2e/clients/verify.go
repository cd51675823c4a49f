// Verifies a number with the client of openapi-generator's `go`.
package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"

	"golang.org/x/oauth2"

	"ringtrue"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Returns a context with a token.
func authorize(client *ringtrue.APIClient, scope string, prefix string) context.Context {
	credentials := ringtrue.BasicAuth{UserName: os.Getenv(prefix + "CLIENT_ID"), Password: os.Getenv(prefix + "CLIENT_SECRET")}
	login := context.WithValue(context.Background(), ringtrue.ContextBasicAuth, credentials)
	token, _, err := client.OAuthAPI.CreateToken(login).GrantType("client_credentials").Scope(scope).Execute()
	check(err)
	source := oauth2.StaticTokenSource(&oauth2.Token{AccessToken: token.AccessToken})
	return context.WithValue(context.Background(), ringtrue.ContextOAuth2, source)
}

func main() {
	configuration := ringtrue.NewConfiguration()
	configuration.Servers = ringtrue.ServerConfigurations{{URL: os.Getenv("BASE_URL")}}
	client := ringtrue.NewAPIClient(configuration)

	authorized := authorize(client, "verification", "")
	input := ringtrue.NewVerificationInput(os.Getenv("PHONE_NUMBER"))
	input.SetMethods([]string{"secure_sna", "reverse_sms"})
	created, _, err := client.VerificationsAPI.CreateVerification(authorized).VerificationInput(*input).Execute()
	check(err)
	step := created.NextStep.SecureSnaNextStep
	response, err := http.Get(step.Url)
	check(err)
	var end ringtrue.ChainEnd
	check(json.NewDecoder(response.Body).Decode(&end))
	redemption := ringtrue.NewSecureSnaRedemption()
	redemption.SetCode(end.GetCode())
	verified, _, err := client.VerificationsAPI.RedeemVerificationCode(authorized, created.VerificationId).SecureSnaRedemption(*redemption).Execute()
	check(err)
	if verified.Steps[0].Method != "secure_sna" {
		panic("the verification has another step")
	}

	_, _, err = client.VerificationsAPI.GetVerification(authorized, "01a1d9b0-3c4d-7e5f-9061-7b8c9d0e1f2a").Execute()
	problem := err.(*ringtrue.GenericOpenAPIError).Model().(ringtrue.Problem)

	reverseSms := ringtrue.NewReverseSmsConfigurationPatch()
	reverseSms.SetTtl(120)
	settings := ringtrue.NewProjectConfigurationPatch()
	settings.SetReverseSms(*reverseSms)
	settings.SetVerificationNil()
	patch := ringtrue.NewProjectPatch()
	patch.SetConfiguration(*settings)
	managing := authorize(client, "management", "WORKSPACE_")
	project, _, err := client.ProjectsAPI.UpdateProject(managing, os.Getenv("WORKSPACE_ID"), os.Getenv("PROJECT_ID")).ProjectPatch(*patch).Execute()
	check(err)

	check(json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"next_step":  step.GetMethod(),
		"status":     verified.Status,
		"match":      verified.GetMatch(),
		"method":     verified.GetMethod(),
		"error_code": problem.ErrorCode,
		"ttl":        project.Configuration.ReverseSms.GetTtl(),
	}))
}
