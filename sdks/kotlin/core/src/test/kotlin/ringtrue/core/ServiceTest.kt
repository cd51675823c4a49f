package ringtrue.core

import org.junit.AfterClass
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.BeforeClass
import org.junit.Test
import javax.net.SocketFactory

/** The client against the real service with a sandbox project. */
class ServiceTest {
    private val options = CheckOptions(allowLoopback = true)
    private val client = CheckClient(SocketFactory.getDefault(), { throw java.net.UnknownHostException(it) }, options)

    private fun complete(url: String, redirectUrl: String? = null): CheckOutcome.Completed {
        val outcome = client.open(url, redirectUrl)
        if (outcome !is CheckOutcome.Completed) throw AssertionError("expected a code, got $outcome")
        return outcome
    }

    private fun createSecureSna(number: String, extra: String = "") =
        service.post("secure_sna", SECURE_SNA, """{"phone_number":"$number"$extra}""")

    @Test
    fun anEvenNumberMatches() {
        val check = createSecureSna("+990123456700")
        val outcome = complete(check.string("url"))
        assertEquals(check.string("check_id"), outcome.checkId)
        assertEquals(listOf(302, 302, 200), outcome.trace.map { it.status })
        val result = service.post("secure_sna", "$SECURE_SNA/${outcome.checkId}", """{"code":"${outcome.code}"}""")
        assertEquals("COMPLETED", result.string("status"))
        assertEquals("true", result.raw("match"))
    }

    @Test
    fun anOddNumberDoesNotMatch() {
        val outcome = complete(createSecureSna("+990123456701").string("url"))
        val result = service.post("secure_sna", "$SECURE_SNA/${outcome.checkId}", """{"code":"${outcome.code}"}""")
        assertEquals("COMPLETED", result.string("status"))
        assertEquals("false", result.raw("match"))
    }

    @Test
    fun anotherSimDoesNotMatch() {
        val outcome = complete(createSecureSna("+990123456700").string("url") + "&sim=%2B990123456702")
        val result = service.post("secure_sna", "$SECURE_SNA/${outcome.checkId}", """{"code":"${outcome.code}"}""")
        assertEquals("false", result.raw("match"))
    }

    @Test
    fun discoveryReturnsTheNumber() {
        val check = service.post("discovery", DISCOVERY, "{}")
        val outcome = complete(check.string("url") + "&sim=%2B990123456704")
        val result = service.post("discovery", "$DISCOVERY/${outcome.checkId}", """{"code":"${outcome.code}"}""")
        assertEquals("+990123456704", result.string("phone_number"))
    }

    @Test
    fun theOperatorsErrorsAreReported() {
        for ((number, error) in mapOf("+990123456799" to "mno_server_error", "+990123456795" to "mno_timeout")) {
            val outcome = client.open(createSecureSna(number).string("url"))
            if (outcome !is CheckOutcome.OperatorRejected) return fail("$outcome")
            assertEquals(error, outcome.error)
            assertFalse(outcome.description.isNullOrEmpty())
        }
    }

    @Test
    fun anOperatorThatNeverAnswersIsAProblem() {
        val outcome = client.open(createSecureSna("+990123456798").string("url"))
        assertTrue("$outcome", outcome is CheckOutcome.Problem && outcome.status == 503)
    }

    @Test
    fun theChainStopsAtTheRedirectUrl() {
        val redirectUrl = "https://app.example.com/verified?tenant=7"
        for (known in listOf(redirectUrl, null)) {
            val extra = ""","redirect_url":"$redirectUrl","reference_id":"order 7+8"}"""
            val outcome = complete(createSecureSna("+990123456700", extra.dropLast(1)).string("url"), known)
            assertEquals("order 7+8", outcome.referenceId)
            assertEquals(listOf(302, 302, 302), outcome.trace.map { it.status })
            val result = service.post("secure_sna", "$SECURE_SNA/${outcome.checkId}", """{"code":"${outcome.code}"}""")
            assertEquals("true", result.raw("match"))
        }
        val failing = createSecureSna("+990123456799", ""","redirect_url":"$redirectUrl"""")
        val outcome = client.open(failing.string("url"))
        assertTrue("$outcome", outcome is CheckOutcome.OperatorRejected && outcome.error == "mno_server_error")
    }

    @Test
    fun aVerificationsStepCompletes() {
        val body = """{"phone_number":"+990123456700"}"""
        val verification = service.post("verification", "/v1/verifications", body)
        val outcome = complete(verification.member("next_step", "url"))
        val id = verification.string("verification_id")
        val result = service.post("verification", "/v1/verifications/$id", """{"code":"${outcome.code}"}""")
        assertEquals("COMPLETED", result.string("status"))
        assertEquals("true", result.raw("match"))
        assertEquals("secure_sna", result.string("method"))
    }

    @Test
    fun theWalletsAnswerProvesTheNumber() {
        val app = "android:apk-key-hash:47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
        service.configure("""{"secure_sna":{"app_origins":["$app"]}}""")
        val wallets = WalletClient({ requestJson, _, callback ->
            // The simulated wallet chooses the only request.
            val request = requestJson.removeSurrounding("{\"requests\":[", "]}")
            val body = """{"request":$request,"sim":"+990123456700","origin":"$app"}"""
            callback.onCredential(service.post("secure_sna", "/v1/sandbox/digital-credentials", body).text)
        })
        for ((number, match) in mapOf("+990123456700" to "true", "+990123456702" to "false")) {
            val check = createSecureSna(number)
            val outcome = wallets.ask(check.json("digital_credential"))
            if (outcome !is WalletOutcome.Answered) return fail("$outcome")
            val body = """{"digital_credential":${outcome.digitalCredential}}"""
            val result = service.post("secure_sna", "$SECURE_SNA/${check.string("check_id")}", body)
            assertEquals("COMPLETED", result.string("status"))
            assertEquals(match, result.raw("match"))
        }
    }

    @Test
    fun aCancelledVerificationAndAUsedUrlAreProblems() {
        val verification = service.post("verification", "/v1/verifications", """{"phone_number":"+990123456700"}""")
        service.post("verification", "/v1/verifications/${verification.string("verification_id")}/cancel", "")
        val check = createSecureSna("+990123456700")
        complete(check.string("url"))
        for (url in listOf(verification.member("next_step", "url"), check.string("url"))) {
            val outcome = client.open(url)
            if (outcome !is CheckOutcome.Problem) return fail("$outcome")
            assertEquals(409, outcome.status)
            assertEquals("check_already_completed", outcome.errorCode)
        }
    }

    @Test
    fun aWrongTokenIsAProblem() {
        val url = createSecureSna("+990123456700").string("url").substringBefore("t=") + "t=q2Zk0v9YtR3mX1bC5nH7Lw"
        val outcome = client.open(url)
        assertTrue("$outcome", outcome is CheckOutcome.Problem && outcome.errorCode == "check_not_found")
    }

    @Test
    fun theSandboxIsRefusedUnlessLoopbackIsAllowed() {
        val url = createSecureSna("+990123456700").string("url")
        assertTrue(CheckClient().open(url) is CheckOutcome.DowngradeRefused)
        complete(url)
    }

    @Test
    fun anExpiredCheckIsAProblem() {
        // The service starts again with a clock that is ahead, on the same data and port.
        RingtrueService.start().use { aging ->
            val url = aging.post("secure_sna", SECURE_SNA, """{"phone_number":"+990123456700"}""").string("url")
            aging.restartInFuture()
            val outcome = client.open(url)
            if (outcome !is CheckOutcome.Problem) return fail("$outcome")
            assertEquals(410, outcome.status)
            assertEquals("check_expired", outcome.errorCode)
        }
    }

    companion object {
        private const val SECURE_SNA = "/v1/number-verification/secure-sna-checks"
        private const val DISCOVERY = "/v1/number-verification/discovery-checks"
        private lateinit var service: RingtrueService

        @BeforeClass
        @JvmStatic
        fun start() {
            service = RingtrueService.start()
        }

        @AfterClass
        @JvmStatic
        fun stop() = service.close()
    }
}
