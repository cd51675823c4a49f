package ringtrue.android

import android.os.Looper
import ringtrue.core.Cancellation
import ringtrue.core.DigitalCredentials
import ringtrue.core.WalletClient
import ringtrue.core.WalletOutcome

/** Asks the phone's wallet to prove the SIM card, which works over Wi-Fi, too. */
public class WalletVerifier
@JvmOverloads
constructor(
    credentials: DigitalCredentials,
    /** How long to wait for the answer, including the time that the user takes to confirm. */
    timeoutMillis: Long = 120_000,
) {
    private val client = WalletClient(credentials, timeoutMillis)

    /**
     * Passes [digitalCredential] to the wallet, which shows a dialog. Blocks until the wallet answers, so call it on a
     * background thread.
     *
     * @param digitalCredential the JSON of `digital_credential` of a check, or of a verification's `secure_sna` step.
     * Use it only once.
     * @throws IllegalArgumentException if [digitalCredential] is not a JSON object with `protocol` and `data`
     * @throws IllegalStateException on the main thread
     */
    @JvmOverloads
    public fun askWallet(digitalCredential: String, cancellation: Cancellation = Cancellation()): WalletOutcome {
        check(Looper.myLooper() == null || Looper.myLooper() != Looper.getMainLooper()) {
            "askWallet blocks: call it on a background thread"
        }
        return client.ask(digitalCredential, cancellation)
    }
}
