package ringtrue.core

/**
 * How opening a check URL ended: [Completed] with a code for your backend, or a [Failure].
 *
 * No `toString` shows the code, a phone number, a path, a query or a cookie, so outcomes can be logged.
 */
public sealed class CheckOutcome {
    /** One entry for each request that was sent or attempted, in order. */
    public abstract val trace: List<Hop>

    /**
     * The operator answered. Only your backend learns the result, by redeeming [code]: this outcome proves nothing.
     */
    public class Completed(
        /** Pass it to your backend, and nowhere else. */
        public val code: String,
        /** The check to which the code belongs. For a verification, this is the step's check. */
        public val checkId: String?,
        /** The reference that your backend set, if any. */
        public val referenceId: String?,
        override val trace: List<Hop>,
    ) : CheckOutcome() {
        override fun toString(): String = "Completed(checkId=$checkId, trace=$trace)"
    }

    /** No code was obtained. Unless a subclass says otherwise, fall back to Reverse SMS. */
    public sealed class Failure : CheckOutcome()

    /** The request did not, or could not, use the phone's mobile data. */
    public class NotOnMobileData(public val reason: MobileDataProblem, override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "NotOnMobileData(reason=$reason, trace=$trace)"
    }

    /** The chain ended with an `error`: the operator rejected the request or failed. */
    public class OperatorRejected(
        /** The check's error code, such as `mno_server_error`. New codes can appear. */
        public val error: String,
        /** The service's explanation for developers. */
        public val description: String?,
        override val trace: List<Hop>,
    ) : Failure() {
        override fun toString(): String = "OperatorRejected(error=$error, trace=$trace)"
    }

    /** A host in the chain answered with an HTTP error. The last entry of [trace] names the host. */
    public class Problem(
        public val status: Int,
        /** The service's error code, such as `check_expired`; null if the response has none, such as an operator's. */
        public val errorCode: String?,
        override val trace: List<Hop>,
    ) : Failure() {
        override fun toString(): String = "Problem(status=$status, errorCode=$errorCode, trace=$trace)"
    }

    /** The chain has more than [CheckClient.MAX_REDIRECTS] redirects. */
    public class TooManyRedirects(override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "TooManyRedirects(trace=$trace)"
    }

    /** A hop took longer than its limit, or the chain longer than the total limit. */
    public class TimedOut(override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "TimedOut(trace=$trace)"
    }

    /** A plain `http` URL led to a host that is not in [CheckOptions.cleartextHosts]. */
    public class DowngradeRefused(public val host: String, override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "DowngradeRefused(host=$host, trace=$trace)"
    }

    /** The host resolves only to addresses that no operator uses, such as loopback. */
    public class AddressRefused(public val host: String, override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "AddressRefused(host=$host, trace=$trace)"
    }

    /** The check URL or a redirect's target is not a URL that this library opens. */
    public class UrlRefused(
        /** A fixed text, without any part of the URL. */
        public val reason: String,
        override val trace: List<Hop>,
    ) : Failure() {
        override fun toString(): String = "UrlRefused(reason=$reason, trace=$trace)"
    }

    /** The host could not be reached, or the connection broke. */
    public class ConnectionFailed(public val stage: ConnectionStage, override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "ConnectionFailed(stage=$stage, trace=$trace)"
    }

    /** A response is not valid HTTP/1.1, is too large, or is not what the end of a chain looks like. */
    public class ProtocolError(
        /** A fixed text, without any part of the response. */
        public val reason: String,
        override val trace: List<Hop>,
    ) : Failure() {
        override fun toString(): String = "ProtocolError(reason=$reason, trace=$trace)"
    }

    /** [Cancellation.cancel] was called, or the calling thread was interrupted. */
    public class Cancelled(override val trace: List<Hop>) : Failure() {
        override fun toString(): String = "Cancelled(trace=$trace)"
    }
}

/** One request of a chain. */
public class Hop(
    public val host: String,
    /** The response's status; null without a response. */
    public val status: Int?,
    public val milliseconds: Long,
) {
    override fun toString(): String = "$host ${status ?: "-"} $milliseconds ms"
}

/** Why mobile data was not used. */
public enum class MobileDataProblem {
    /** The service saw the request arrive over another network, such as Wi-Fi or a VPN (412 `not_mobile_ip`). */
    OTHER_NETWORK_SEEN,

    /** The device has no mobile radio. */
    NO_TELEPHONY,

    /** Aeroplane mode is on. */
    AIRPLANE_MODE,

    /** No SIM card is ready for use. */
    NO_SIM,

    /** The user turned mobile data off. */
    TURNED_OFF,

    /** The system did not provide a mobile network in time. */
    NETWORK_UNAVAILABLE,

    /** The mobile network was lost while it was used. */
    NETWORK_LOST,
}

/** The step at which a connection failed. */
public enum class ConnectionStage {
    /** The host name could not be resolved. */
    RESOLVE,

    /** No address of the host accepted a TCP connection. */
    CONNECT,

    /** The TLS handshake failed: for example, the certificate is not trusted or is for another host. */
    TLS,

    /** The connection broke before the response was complete. */
    TRANSFER,
}
