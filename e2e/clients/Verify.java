import com.fasterxml.jackson.databind.ObjectMapper;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.OAuthApi;
import org.openapitools.client.api.ProjectsApi;
import org.openapitools.client.api.VerificationsApi;
import org.openapitools.client.model.ChainEnd;
import org.openapitools.client.model.Problem;
import org.openapitools.client.model.ProjectConfigurationPatch;
import org.openapitools.client.model.ProjectPatch;
import org.openapitools.client.model.ReverseSmsConfigurationPatch;
import org.openapitools.client.model.SecureSnaNextStep;
import org.openapitools.client.model.SecureSnaRedemption;
import org.openapitools.client.model.VerificationInput;

/** Verifies a number with the client of openapi-generator's `java`, library `native`. */
public final class Verify {
    /** Returns a client with an `Authorization` header. */
    private static ApiClient client(String authorization) {
        ApiClient client = new ApiClient();
        client.updateBaseUri(System.getenv("BASE_URL"));
        client.setRequestInterceptor(request -> request.header("Authorization", authorization));
        return client;
    }

    /** Returns a client with a token. */
    private static ApiClient authorize(String scope, String prefix) throws ApiException {
        String credentials = System.getenv(prefix + "CLIENT_ID") + ":" + System.getenv(prefix + "CLIENT_SECRET");
        ApiClient login = client("Basic " + Base64.getEncoder().encodeToString(credentials.getBytes()));
        return client("Bearer " + new OAuthApi(login).createToken("client_credentials", null, null, null, null, null, null, null, null, null, scope).getAccessToken());
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = ApiClient.createDefaultObjectMapper();
        VerificationsApi verifications = new VerificationsApi(authorize("verification", ""));
        VerificationInput input = new VerificationInput()
                .phoneNumber(System.getenv("PHONE_NUMBER"))
                .methods(List.of(VerificationInput.MethodsEnum.SECURE_SNA, VerificationInput.MethodsEnum.REVERSE_SMS));
        var created = verifications.createVerification(input, null);
        SecureSnaNextStep step = created.getNextStep().getSecureSnaNextStep();
        HttpClient device = HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NORMAL).build();
        HttpRequest visit = HttpRequest.newBuilder(URI.create(step.getUrl().toString())).build();
        String body = device.send(visit, HttpResponse.BodyHandlers.ofString()).body();
        SecureSnaRedemption redemption = new SecureSnaRedemption().code(json.readValue(body, ChainEnd.class).getCode());
        var verified = verifications.redeemVerificationCode(created.getVerificationId(), redemption);
        if (!verified.getSteps().get(0).getMethod().equals("secure_sna")) {
            throw new IllegalStateException("the verification has another step");
        }

        Problem problem = null;
        try {
            verifications.getVerification(UUID.randomUUID());
        } catch (ApiException error) {
            problem = json.readValue(error.getResponseBody(), Problem.class);
        }

        ProjectPatch patch = new ProjectPatch()._configuration(
                new ProjectConfigurationPatch().reverseSms(new ReverseSmsConfigurationPatch().ttl(120)));
        var project = new ProjectsApi(authorize("management", "WORKSPACE_")).updateProject(
                UUID.fromString(System.getenv("WORKSPACE_ID")), UUID.fromString(System.getenv("PROJECT_ID")), patch, null, null);

        Map<String, Object> seen = new LinkedHashMap<>();
        seen.put("next_step", step.getMethod().getValue());
        seen.put("status", verified.getStatus().getValue());
        seen.put("match", verified.getMatch());
        seen.put("method", verified.getMethod());
        seen.put("error_code", problem.getErrorCode());
        seen.put("ttl", project.getConfiguration().getReverseSms().getTtl());
        System.out.println(json.writeValueAsString(seen));
    }
}
