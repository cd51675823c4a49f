package ringtrue.android

import android.content.Context
import android.net.Network
import android.os.Looper
import android.security.NetworkSecurityPolicy
import ringtrue.core.Cancellation
import ringtrue.core.CheckClient
import ringtrue.core.CheckOptions
import ringtrue.core.CheckOutcome
import ringtrue.core.MobileDataProblem
import javax.net.ssl.HttpsURLConnection

/**
 * Opens check URLs over the phone's mobile data, also while Wi-Fi is connected.
 *
 * Requires the permissions `INTERNET`, `ACCESS_NETWORK_STATE` and `CHANGE_NETWORK_STATE`, and Android 7.0 (API level
 * 24). Plain `http` requires that both [CheckOptions.cleartextHosts] and the app's network security configuration
 * permit the host.
 */
public class MobileVerifier
@JvmOverloads
constructor(
    context: Context,
    options: CheckOptions = CheckOptions(),
    /** How long to wait for the mobile network. Phones on Wi-Fi connect within a few seconds. */
    private val networkTimeoutMillis: Long = 10_000,
) {
    private val context: Context = context.applicationContext ?: context
    private val options = withHostnameVerifier(options)

    /**
     * Whether [verifySilently] has a chance, without connecting. False means that it would fail; true is no promise,
     * because only the attempt shows whether the mobile network has data.
     */
    public fun canUseMobileData(): Boolean = mobileDataProblem() == null

    /** Why mobile data cannot be used, as far as the system says beforehand; null if nothing is in the way. */
    public fun mobileDataProblem(): MobileDataProblem? = MobileDataStatus(context).problem()

    /**
     * Opens [url] over mobile data and follows it to its end. Blocks for at most [networkTimeoutMillis] and
     * [CheckOptions.totalTimeoutMillis], so call it on a background thread. The mobile network is released afterwards.
     *
     * @param url the `url` of a check, or of a verification's `secure_sna` step. Open it only once. Never log it.
     * @param redirectUrl the check's `redirect_url`, if it has one; see [CheckClient.open]
     * @throws SecurityException if the manifest lacks a permission
     * @throws IllegalStateException on the main thread
     */
    @JvmOverloads
    public fun verifySilently(
        url: String,
        redirectUrl: String? = null,
        cancellation: Cancellation = Cancellation(),
    ): CheckOutcome {
        check(Looper.myLooper() == null || Looper.myLooper() != Looper.getMainLooper()) {
            "verifySilently blocks: call it on a background thread"
        }
        mobileDataProblem()?.let { return CheckOutcome.NotOnMobileData(it, emptyList()) }
        return CellularNetwork(context).use(networkTimeoutMillis, cancellation) { network, networkCancellation ->
            client(network).open(url, redirectUrl, networkCancellation)
        }
    }

    private fun client(network: Network): CheckClient = CheckClient(
        network.socketFactory,
        { host -> network.getAllByName(host).toList() },
        options,
        { host -> NetworkSecurityPolicy.getInstance().isCleartextTrafficPermitted(host) },
    )

    private companion object {
        /** Android's TLS does not check the host name if the app's own trust manager does not. */
        fun withHostnameVerifier(options: CheckOptions): CheckOptions = CheckOptions(
            options.hopTimeoutMillis,
            options.totalTimeoutMillis,
            options.cleartextHosts,
            options.allowLoopback,
            options.tls,
            options.hostnameVerifier ?: HttpsURLConnection.getDefaultHostnameVerifier(),
        )
    }
}
