package ringtrue.android

import android.os.Looper
import org.junit.Assert.assertEquals
import org.junit.Assert.assertSame
import org.junit.Assert.assertTrue
import org.junit.Assert.fail
import org.junit.Rule
import org.junit.Test
import org.junit.rules.Timeout
import ringtrue.core.WalletOutcome

class WalletVerifierTest {
    /** Ends a test that hangs; no test comes near it. */
    @get:Rule
    val hangGuard: Timeout = Timeout.seconds(120)

    private val request = """{"protocol":"openid4vp-v1-unsigned","data":{}}"""

    @Test
    fun theWalletsAnswerIsReturned() {
        val answer = """{"protocol":"openid4vp-v1-unsigned","data":{"vp_token":{}}}"""
        val outcome = WalletVerifier({ requestJson, _, callback ->
            assertEquals("""{"requests":[$request]}""", requestJson)
            callback.onCredential(answer)
        }).askWallet(request)
        assertTrue("$outcome", outcome is WalletOutcome.Answered && outcome.digitalCredential == answer)
    }

    @Test
    fun theTimeLimitCounts() {
        assertSame(WalletOutcome.TimedOut, WalletVerifier({ _, _, _ -> }, 50).askWallet(request))
    }

    @Test
    fun theMainThreadIsRefused() {
        Looper.CURRENT.set(Looper.getMainLooper())
        try {
            WalletVerifier({ _, _, _ -> throw AssertionError("the wallet was asked") }).askWallet(request)
            fail("expected an exception")
        } catch (expected: IllegalStateException) {
            assertEquals("askWallet blocks: call it on a background thread", expected.message)
        } finally {
            Looper.CURRENT.remove()
        }
    }
}
