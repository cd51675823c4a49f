package ringtrue.core

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertSame
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Rule
import org.junit.Test
import org.junit.rules.Timeout
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch

class WalletClientTest {
    /** Ends a test that hangs; no test comes near it. */
    @get:Rule
    val hangGuard: Timeout = Timeout.seconds(120)

    private val request = """{"protocol":"openid4vp-v1-unsigned","data":{"nonce":"abc"}}"""
    private val answer = """{"protocol":"openid4vp-v1-unsigned","data":{"vp_token":{"ringtrue":["a~b"]}}}"""

    private fun reporting(report: (DigitalCredentialCallback) -> Unit) =
        DigitalCredentials { _, _, callback -> report(callback) }

    private fun outcomeOf(credentialJson: String) =
        WalletClient(reporting { it.onCredential(credentialJson) }).ask(request)

    @Test
    fun theRequestIsTheOnlyOne() {
        lateinit var requestJson: String
        val credentials = DigitalCredentials { json, _, callback ->
            requestJson = json
            callback.onFailure(WalletOutcome.Declined)
        }
        WalletClient(credentials).ask(""" { "protocol" : "p\u0031", "data": {"a": [1, {}]}, "other": true } """)
        assertEquals("""{"requests":[{"protocol":"p\u0031","data":{"a": [1, {}]}}]}""", requestJson)
    }

    @Test
    fun theAnswerHasProtocolAndData() {
        for (credentialJson in listOf(answer, answer.dropLast(1) + ""","id":"1","type":"digital"}""")) {
            val outcome = outcomeOf(credentialJson)
            if (outcome !is WalletOutcome.Answered) return fail("$outcome")
            assertEquals(answer, outcome.digitalCredential)
            assertEquals("Answered", outcome.toString())
        }
    }

    @Test
    fun otherAnswersAreInvalid() {
        val answers = listOf(
            "",
            "[]",
            "not JSON",
            """{"protocol":"p"}""",
            """{"data":{}}""",
            """{"protocol":1,"data":{}}""",
            """{"protocol":"p","data":"text"}""",
            """{"protocol":"p","data":{}}}""",
            """{"protocol":"p","data":{},"data":{}}""",
        )
        for (json in answers) assertSame(json, WalletOutcome.InvalidAnswer, outcomeOf(json))
    }

    @Test
    fun aMalformedRequestIsAnError() {
        for (json in listOf("", "null", """{"protocol":"p"}""", """{"requests":[]}""")) {
            try {
                WalletClient(reporting { throw AssertionError("the wallet was asked") }).ask(json)
                fail(json)
            } catch (expected: IllegalArgumentException) {
                continue
            }
        }
    }

    @Test
    fun failuresAreReported() {
        val failures = listOf(
            WalletOutcome.Declined,
            WalletOutcome.NoCredential,
            WalletOutcome.NotAvailable,
            WalletOutcome.Failed,
        )
        for (failure in failures) {
            assertSame(failure, WalletClient(reporting { it.onFailure(failure) }).ask(request))
        }
        val names = failures.map { it.toString() }
        assertEquals(listOf("Declined", "NoCredential", "NotAvailable", "Failed"), names)
    }

    @Test
    fun theFirstReportCounts() {
        val credentials = reporting {
            it.onFailure(WalletOutcome.Declined)
            it.onCredential(answer)
        }
        assertSame(WalletOutcome.Declined, WalletClient(credentials).ask(request))
    }

    @Test
    fun theAnswerMayComeFromAnotherThread() {
        lateinit var cancellation: Cancellation
        val credentials = DigitalCredentials { _, requestCancellation, callback ->
            cancellation = requestCancellation
            Thread { callback.onCredential(answer) }.apply { isDaemon = true }.start()
        }
        assertTrue(WalletClient(credentials).ask(request) is WalletOutcome.Answered)
        assertFalse(cancellation.isCancelled)
    }

    @Test
    fun aWalletThatDoesNotAnswerIsCancelled() {
        lateinit var cancellation: Cancellation
        val credentials = DigitalCredentials { _, requestCancellation, _ -> cancellation = requestCancellation }
        assertSame(WalletOutcome.TimedOut, WalletClient(credentials, 50).ask(request))
        assertTrue(cancellation.isCancelled)
    }

    @Test
    fun callsCanBeCancelledBeforehandAndWhileWaiting() {
        val before = Cancellation().apply { cancel() }
        val unasked = WalletClient(reporting { throw AssertionError("the wallet was asked") })
        assertSame(WalletOutcome.Cancelled, unasked.ask(request, before))

        val waiting = Cancellation()
        lateinit var cancellation: Cancellation
        val credentials = DigitalCredentials { _, requestCancellation, _ ->
            cancellation = requestCancellation
            Thread { waiting.cancel() }.apply { isDaemon = true }.start()
        }
        assertSame(WalletOutcome.Cancelled, WalletClient(credentials).ask(request, waiting))
        assertTrue(cancellation.isCancelled)
    }

    @Test
    fun anInterruptEndsTheWait() {
        val asked = CountDownLatch(1)
        val cancelled = CountDownLatch(1)
        val credentials = DigitalCredentials { _, cancellation, _ ->
            cancellation.onCancel { cancelled.countDown() }
            asked.countDown()
        }
        val outcome = CompletableFuture<WalletOutcome>()
        val thread = Thread { outcome.complete(WalletClient(credentials).ask(request)) }
        thread.start()
        asked.await()
        thread.interrupt()
        assertSame(WalletOutcome.Cancelled, outcome.get())
        cancelled.await()
    }

    @Test
    fun anExceptionOfTheAppIsPassedOn() {
        val expected = IllegalStateException("no activity")
        try {
            WalletClient(reporting { throw expected }).ask(request)
            fail("expected an exception")
        } catch (actual: IllegalStateException) {
            assertSame(expected, actual)
        }
    }
}
