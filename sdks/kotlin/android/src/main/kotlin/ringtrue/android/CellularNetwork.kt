package ringtrue.android

import android.content.Context
import android.net.ConnectivityManager
import android.net.Network
import android.net.NetworkCapabilities
import android.net.NetworkRequest
import ringtrue.core.Cancellation
import ringtrue.core.CheckOutcome
import ringtrue.core.MobileDataProblem
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

/** Requests the mobile network for the duration of one call. */
internal class CellularNetwork(context: Context) {
    private val connectivity = context.getSystemService(Context.CONNECTIVITY_SERVICE) as ConnectivityManager

    /**
     * Calls [action] with the network. The cancellation that it gets follows [cancellation], and also the loss of the
     * network. The request is withdrawn in every case, so that the phone can switch its radio off.
     */
    fun use(
        timeoutMillis: Long,
        cancellation: Cancellation,
        action: (Network, Cancellation) -> CheckOutcome,
    ): CheckOutcome {
        val callback = Callback()
        val removeAction = cancellation.onCancel(callback::cancel)
        try {
            connectivity.requestNetwork(cellularRequest(), callback)
            try {
                return callback.run(timeoutMillis, cancellation, action)
            } finally {
                unregister(callback)
            }
        } finally {
            removeAction()
        }
    }

    private fun cellularRequest(): NetworkRequest = NetworkRequest.Builder()
        .addTransportType(NetworkCapabilities.TRANSPORT_CELLULAR)
        .addCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET)
        .build()

    private fun unregister(callback: Callback) {
        try {
            connectivity.unregisterNetworkCallback(callback)
        } catch (alreadyReleased: IllegalArgumentException) {
            // Some versions release the request by themselves after onUnavailable.
        }
    }

    /** The system calls it on a thread of its own. */
    private class Callback : ConnectivityManager.NetworkCallback() {
        private val answered = CountDownLatch(1)
        private val lock = Any()
        private var network: Network? = null
        private var lost = false

        /** Cancels the running check, by the user or because the network is gone. */
        private val cancellation = Cancellation()

        override fun onAvailable(network: Network) {
            // The network can change, for example to another cell's. The running check stays with the first one.
            synchronized(lock) { if (this.network == null) this.network = network }
            answered.countDown()
        }

        override fun onUnavailable() {
            answered.countDown()
        }

        override fun onLost(network: Network) {
            synchronized(lock) {
                if (network != this.network) return
                lost = true
            }
            cancellation.cancel()
        }

        fun cancel() {
            answered.countDown()
            cancellation.cancel()
        }

        fun run(
            timeoutMillis: Long,
            caller: Cancellation,
            action: (Network, Cancellation) -> CheckOutcome,
        ): CheckOutcome {
            try {
                answered.await(timeoutMillis, TimeUnit.MILLISECONDS)
            } catch (interrupted: InterruptedException) {
                Thread.currentThread().interrupt()
                return CheckOutcome.Cancelled(emptyList())
            }
            if (caller.isCancelled) return CheckOutcome.Cancelled(emptyList())
            val available = synchronized(lock) { network }
                ?: return CheckOutcome.NotOnMobileData(MobileDataProblem.NETWORK_UNAVAILABLE, emptyList())
            val outcome = action(available, cancellation)
            val wasLost = synchronized(lock) { lost }
            // A lost network also shows as a broken connection, if the socket fails before the callback arrives.
            val failedByLoss = outcome is CheckOutcome.Cancelled || outcome is CheckOutcome.ConnectionFailed
            if (!wasLost || !failedByLoss || caller.isCancelled) return outcome
            return CheckOutcome.NotOnMobileData(MobileDataProblem.NETWORK_LOST, outcome.trace)
        }
    }
}
