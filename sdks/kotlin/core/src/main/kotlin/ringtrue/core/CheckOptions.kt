package ringtrue.core

import javax.net.ssl.HostnameVerifier
import javax.net.ssl.SSLSocketFactory

/** Limits and permissions for opening check URLs. The defaults suit production. */
public class CheckOptions
@JvmOverloads
constructor(
    /** Limit for one hop, from name resolution to the end of the response. */
    public val hopTimeoutMillis: Long = 5_000,
    /** Limit for the whole chain. */
    public val totalTimeoutMillis: Long = 30_000,
    /**
     * Hosts that may be opened over plain `http`: operators that recognise the device by header enrichment.
     * `*.operator.example` permits all subdomains, but not `operator.example` itself.
     */
    public val cleartextHosts: Set<String> = emptySet(),
    /**
     * Permits loopback addresses, also over plain `http`, for a development server on the same machine. Without it,
     * a redirect cannot reach services on the phone itself.
     */
    public val allowLoopback: Boolean = false,
    /** TLS implementation and trust; null for the platform's. It must layer TLS over a connected socket. */
    public val tls: SSLSocketFactory? = null,
    /**
     * A second check of the certificate's host name, for platforms whose TLS implementation can be configured not
     * to do it. The TLS implementation is always asked to check the name.
     */
    public val hostnameVerifier: HostnameVerifier? = null,
) {
    init {
        require(hopTimeoutMillis in 1..MAX_TIMEOUT_MILLIS) { "hopTimeoutMillis must be in 1..$MAX_TIMEOUT_MILLIS" }
        require(totalTimeoutMillis in 1..MAX_TIMEOUT_MILLIS) {
            "totalTimeoutMillis must be in 1..$MAX_TIMEOUT_MILLIS"
        }
    }

    private val exactHosts = HashSet<String>()
    private val parentDomains = ArrayList<String>()

    init {
        for (entry in cleartextHosts) {
            val host = entry.lowercase()
            val name = host.removePrefix("*.")
            require(HttpUrl.isHost(name)) { "cleartextHosts: not a host name" }
            if (name.length < host.length) parentDomains.add(".$name") else exactHosts.add(name)
        }
    }

    internal fun permitsCleartext(host: String): Boolean =
        host in exactHosts || parentDomains.any { host.length > it.length && host.endsWith(it) }

    private companion object {
        const val MAX_TIMEOUT_MILLIS = 600_000L
    }
}
