package ringtrue.core

import java.net.InetAddress
import java.net.SocketTimeoutException
import java.util.concurrent.TimeUnit
import javax.net.SocketFactory

/**
 * Opens the URL of a Secure SNA or Discovery check, or of a verification's `secure_sna` step, over a given network.
 *
 * The operator identifies the device by its connection, so every request must use the mobile network: [sockets] and
 * [resolver] decide that. On Android, use `ringtrue.android.MobileVerifier`, which provides both.
 *
 * Instances are immutable and can be shared between threads. Nothing is kept between calls: no cookie, connection or
 * cached response.
 */
public class CheckClient
@JvmOverloads
constructor(
    private val sockets: SocketFactory = SocketFactory.getDefault(),
    private val resolver: (String) -> List<InetAddress> = { InetAddress.getAllByName(it).toList() },
    private val options: CheckOptions = CheckOptions(),
    /** A veto on plain `http` for a host, such as the platform's policy. It permits nothing by itself. */
    private val cleartextPolicy: (String) -> Boolean = { true },
) {
    /**
     * Opens [url] and follows the redirects to the end of the chain. Blocks; see [CheckOptions] for the limits.
     *
     * Open a URL only once: opening it again invalidates the previous chain. Failures are outcomes, not exceptions.
     *
     * @param url the `url` that your backend got. Never log it.
     * @param redirectUrl the check's `redirect_url`, at which the chain ends. It is not opened. If you leave it out,
     *   the end is recognised by the `check_id` that the service adds to it.
     * @throws IllegalArgumentException if [redirectUrl] is not an `http` or `https` URL
     */
    @JvmOverloads
    public fun open(
        url: String,
        redirectUrl: String? = null,
        cancellation: Cancellation = Cancellation(),
    ): CheckOutcome {
        val lastUrl =
            try {
                redirectUrl?.let(HttpUrl::parse)
            } catch (refused: UrlException) {
                throw IllegalArgumentException("redirectUrl: ${refused.reason}")
            }
        val firstUrl =
            try {
                HttpUrl.parse(url)
            } catch (refused: UrlException) {
                return CheckOutcome.UrlRefused(refused.reason, emptyList())
            }
        StopSignal().use { signal ->
            val removeAction = cancellation.onCancel { signal.stop(StopSignal.Reason.CANCELLED) }
            try {
                return Chain(firstUrl, lastUrl, signal).follow()
            } finally {
                removeAction()
            }
        }
    }

    /** One run from the check URL to an outcome. */
    private inner class Chain(
        private val firstUrl: HttpUrl,
        private val lastUrl: HttpUrl?,
        private val signal: StopSignal,
    ) {
        private val connector = Connector(sockets, resolver, options, signal)
        private val cookies = CookieJar()
        private val trace = ArrayList<Hop>()
        private val startedAt = System.nanoTime()

        /** From `…/{check_id}/redirect`. */
        private val checkId = firstUrl.path.split('/').dropLast(1).lastOrNull()

        fun follow(): CheckOutcome {
            var url = firstUrl
            repeat(MAX_REDIRECTS + 1) {
                if (!permitsScheme(url)) return CheckOutcome.DowngradeRefused(url.host, hops())
                try {
                    val response = fetch(url)
                    cookies.store(url, response.head.values("set-cookie"))
                    if (response.head.status !in REDIRECTS) return finalOutcome(response)
                    val target = redirectTarget(url, response.head)
                    if (isEnd(url, target)) return redirectOutcome(target)
                    url = target
                } catch (failure: Exception) {
                    return failureOutcome(url, failure)
                }
            }
            return CheckOutcome.TooManyRedirects(hops())
        }

        private fun hops(): List<Hop> = trace.toList()

        private fun permitsScheme(url: HttpUrl): Boolean {
            if (url.secure) return true
            val isListed = options.permitsCleartext(url.host) || (options.allowLoopback && url.isLoopbackHost)
            return isListed && cleartextPolicy(url.host)
        }

        private fun fetch(url: HttpUrl): Response {
            val remaining = options.totalTimeoutMillis - millisSince(startedAt)
            if (remaining <= 0) throw SocketTimeoutException()
            val hopStartedAt = System.nanoTime()
            var status: Int? = null
            try {
                return signal.withDeadline(minOf(remaining, options.hopTimeoutMillis)) {
                    connector.exchange(url, request(url)) { reader ->
                        val head = reader.readHead()
                        status = head.status
                        Response(head, readBody(head, reader))
                    }
                }
            } finally {
                trace.add(Hop(url.host, status, millisSince(hopStartedAt)))
            }
        }

        private fun readBody(head: ResponseHead, reader: ResponseReader): ByteArray? = when {
            head.status in REDIRECTS -> null

            head.status < 400 -> reader.readBody(head)

            else ->
                try {
                    reader.readBody(head)
                } catch (unreadable: ProtocolException) {
                    // For errors, the status is what counts.
                    null
                }
        }

        private fun request(url: HttpUrl): ByteArray {
            val request = StringBuilder()
            request.append("GET ").append(url.requestTarget).append(" HTTP/1.1\r\n")
            request.append("Host: ").append(url.hostHeader).append("\r\n")
            request.append("User-Agent: ").append(USER_AGENT).append("\r\n")
            // Not an Accept header of a browser: the service would answer with a page.
            request.append("Accept: application/json, */*;q=0.5\r\n")
            request.append("Accept-Encoding: identity\r\n")
            request.append("Cache-Control: no-store\r\n")
            request.append("Connection: close\r\n")
            cookies.header(url)?.let { request.append("Cookie: ").append(it).append("\r\n") }
            request.append("\r\n")
            return request.toString().toByteArray(Charsets.US_ASCII)
        }

        private fun redirectTarget(url: HttpUrl, head: ResponseHead): HttpUrl {
            val location = head.singleValue("location") ?: throw ProtocolException("a redirect has no target")
            return url.resolve(escapeBytes(location))
        }

        private fun isEnd(source: HttpUrl, target: HttpUrl): Boolean {
            if (lastUrl != null) {
                val ownQuery = lastUrl.query.orEmpty()
                val query = target.query.orEmpty()
                return target.hasOriginOf(lastUrl) &&
                    target.path == lastUrl.path &&
                    (ownQuery.isEmpty() || query == ownQuery || query.startsWith("$ownQuery&"))
            }
            // The redirects to and from an operator do not carry the check's id.
            if (!source.hasOriginOf(firstUrl)) return false
            val parameters = target.queryParameters() ?: return false
            return parameters["check_id"] == checkId && ("code" in parameters) != ("error" in parameters)
        }

        private fun redirectOutcome(target: HttpUrl): CheckOutcome {
            val parameters =
                target.queryParameters() ?: throw ProtocolException("the redirect URL's query is invalid")
            return chainOutcome { parameters[it] }
        }

        private fun finalOutcome(response: Response): CheckOutcome {
            val head = response.head
            if (head.status >= 400) return problemOutcome(response)
            if (head.status != 200) throw ProtocolException("the status is neither a redirect nor an end")
            if (head.mediaType != "application/json" || response.body == null) {
                throw ProtocolException("the last response is not JSON")
            }
            val json = JsonObject.parse(response.body)
            return chainOutcome { json.string(it) }
        }

        private fun chainOutcome(member: (String) -> String?): CheckOutcome {
            val code = member("code")
            val error = member("error")
            if ((code == null) == (error == null)) throw ProtocolException("the chain's end has no code or error")
            if (code != null) {
                if (!isCode(code)) throw ProtocolException("the code is invalid")
                val checkId = member("check_id")?.take(MAX_TEXT_LENGTH)
                return CheckOutcome.Completed(code, checkId, member("reference_id")?.take(MAX_TEXT_LENGTH), hops())
            }
            if (error == null || !isErrorCode(error)) throw ProtocolException("the error code is invalid")
            if (error == NOT_MOBILE_IP) return notOnMobileData()
            return CheckOutcome.OperatorRejected(error, member("error_description")?.take(MAX_TEXT_LENGTH), hops())
        }

        private fun problemOutcome(response: Response): CheckOutcome {
            val errorCode =
                try {
                    val isProblem = response.head.mediaType == "application/problem+json"
                    val json = if (isProblem && response.body != null) JsonObject.parse(response.body) else null
                    json?.string("error_code")?.takeIf(::isErrorCode)
                } catch (unreadable: ProtocolException) {
                    null
                }
            if (errorCode == NOT_MOBILE_IP) return notOnMobileData()
            return CheckOutcome.Problem(response.head.status, errorCode, hops())
        }

        private fun notOnMobileData(): CheckOutcome =
            CheckOutcome.NotOnMobileData(MobileDataProblem.OTHER_NETWORK_SEEN, hops())

        private fun failureOutcome(url: HttpUrl, failure: Exception): CheckOutcome {
            if (failure is InterruptedException) Thread.currentThread().interrupt()
            // A stop closes the connection, which makes the call fail in one of many ways.
            val reason = signal.reason
            return when {
                failure is InterruptedException || reason == StopSignal.Reason.CANCELLED ->
                    CheckOutcome.Cancelled(hops())

                failure is SocketTimeoutException || reason == StopSignal.Reason.TIMED_OUT ->
                    CheckOutcome.TimedOut(hops())

                failure is ProtocolException -> CheckOutcome.ProtocolError(failure.reason, hops())

                failure is UrlException -> CheckOutcome.UrlRefused(failure.reason, hops())

                failure is AddressRefusedException -> CheckOutcome.AddressRefused(url.host, hops())

                failure is ConnectionException -> CheckOutcome.ConnectionFailed(failure.stage, hops())

                else -> throw failure
            }
        }

        private fun millisSince(nanos: Long): Long = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - nanos)
    }

    /** [body] is null for redirects, and for errors whose body is unreadable. */
    private class Response(val head: ResponseHead, val body: ByteArray?)

    public companion object {
        /** A chain with more redirects fails with [CheckOutcome.TooManyRedirects]. */
        public const val MAX_REDIRECTS: Int = 10

        private const val USER_AGENT = "ringtrue-kotlin/1.0.0"
        private const val NOT_MOBILE_IP = "not_mobile_ip"
        private const val MAX_TEXT_LENGTH = 500
        private val REDIRECTS = setOf(301, 302, 303, 307, 308)

        private fun isCode(text: String): Boolean = text.length in 1..MAX_TEXT_LENGTH &&
            text.all { it.isAsciiLetter() || it.isAsciiDigit() || it in "-._~" }

        private fun isErrorCode(text: String): Boolean =
            text.length in 1..64 && text.all { it in 'a'..'z' || it.isAsciiDigit() || it == '_' }

        /** Header fields are bytes; those outside ASCII are escaped as they are. */
        private fun escapeBytes(field: String): String {
            val escaped = StringBuilder(field.length)
            for (character in field) {
                if (character.code <
                    0x80
                ) {
                    escaped.append(character)
                } else {
                    HttpUrl.appendEscaped(escaped, character.code)
                }
            }
            return escaped.toString()
        }
    }
}
