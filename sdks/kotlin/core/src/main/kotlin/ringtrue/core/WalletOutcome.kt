package ringtrue.core

/**
 * How a request to the phone's wallet ended: [Answered] with an answer for your backend, or a [Failure].
 *
 * No `toString` shows the answer, so outcomes can be logged.
 */
public sealed class WalletOutcome {
    /** The wallet answered. Only your backend learns the result, by submitting the answer: this proves nothing. */
    public class Answered(
        /** The JSON object with `protocol` and `data` that your backend submits as `digital_credential`. */
        public val digitalCredential: String,
    ) : WalletOutcome() {
        override fun toString(): String = "Answered"
    }

    /** There is no answer. Go to the next step of the verification. */
    public sealed class Failure : WalletOutcome()

    /** The user declined, or closed the wallet's dialog. */
    public object Declined : Failure() {
        override fun toString(): String = "Declined"
    }

    /** No wallet has what the request asks for: for example, there is no SIM card of a suitable operator. */
    public object NoCredential : Failure() {
        override fun toString(): String = "NoCredential"
    }

    /** The device has no Credential Manager for digital credentials, or the app lacks its library. */
    public object NotAvailable : Failure() {
        override fun toString(): String = "NotAvailable"
    }

    /** The wallet did not answer in time. */
    public object TimedOut : Failure() {
        override fun toString(): String = "TimedOut"
    }

    /** The answer is not a JSON object with `protocol` and `data`. */
    public object InvalidAnswer : Failure() {
        override fun toString(): String = "InvalidAnswer"
    }

    /** [Cancellation.cancel] was called, or the calling thread was interrupted. */
    public object Cancelled : Failure() {
        override fun toString(): String = "Cancelled"
    }

    /** Another failure of the wallet or of Credential Manager. */
    public object Failed : Failure() {
        override fun toString(): String = "Failed"
    }
}
