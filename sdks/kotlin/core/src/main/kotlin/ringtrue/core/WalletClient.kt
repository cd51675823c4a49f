package ringtrue.core

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

/** Passes a check's request to the phone's wallet, and its answer back. Thread-safe. */
public class WalletClient
@JvmOverloads
constructor(
    private val credentials: DigitalCredentials,
    /** How long to wait for the answer, including the time that the user takes to confirm. */
    private val timeoutMillis: Long = 120_000,
) {
    /**
     * Asks the wallet, and blocks until it answers, at most [timeoutMillis].
     *
     * @param digitalCredential the JSON of `digital_credential` of a check, or of a verification's `secure_sna` step.
     * Use it only once.
     * @throws IllegalArgumentException if [digitalCredential] is not a JSON object with `protocol` and `data`
     */
    @JvmOverloads
    public fun ask(digitalCredential: String, cancellation: Cancellation = Cancellation()): WalletOutcome {
        val request = requireNotNull(readCredential(digitalCredential)) {
            "digitalCredential is not a JSON object with protocol and data"
        }
        val callback = Callback()
        val requestCancellation = Cancellation()
        val removeAction = cancellation.onCancel { callback.onFailure(WalletOutcome.Cancelled) }
        try {
            if (cancellation.isCancelled) return WalletOutcome.Cancelled
            // As the Digital Credentials API demands: the wallet may choose between several requests.
            credentials.get("{\"requests\":[$request]}", requestCancellation, callback)
            val outcome = callback.await(timeoutMillis)
            if (outcome === WalletOutcome.TimedOut || outcome === WalletOutcome.Cancelled) requestCancellation.cancel()
            return outcome
        } finally {
            removeAction()
        }
    }

    /** The first report counts. */
    private class Callback : DigitalCredentialCallback {
        private val ended = CountDownLatch(1)
        private val outcome = AtomicReference<WalletOutcome>()

        override fun onCredential(credentialJson: String) {
            end(readCredential(credentialJson)?.let { WalletOutcome.Answered(it) } ?: WalletOutcome.InvalidAnswer)
        }

        override fun onFailure(failure: WalletOutcome.Failure) = end(failure)

        private fun end(outcome: WalletOutcome) {
            this.outcome.compareAndSet(null, outcome)
            ended.countDown()
        }

        fun await(timeoutMillis: Long): WalletOutcome {
            try {
                if (!ended.await(timeoutMillis, TimeUnit.MILLISECONDS)) end(WalletOutcome.TimedOut)
            } catch (interrupted: InterruptedException) {
                Thread.currentThread().interrupt()
                end(WalletOutcome.Cancelled)
            }
            return outcome.get()
        }
    }

    private companion object {
        /** Only these two members, because the service refuses others; null if one is missing. */
        fun readCredential(json: String): String? {
            val credential = try {
                JsonObject.parse(json.toByteArray())
            } catch (invalid: ProtocolException) {
                return null
            }
            if (credential.string("protocol") == null) return null
            val data = credential.json("data")?.takeIf { it.startsWith('{') } ?: return null
            return "{\"protocol\":${credential.json("protocol")},\"data\":$data}"
        }
    }
}
