package ringtrue.android

import android.content.Context
import android.content.pm.PackageManager
import android.net.ConnectivityManager
import android.net.NetworkCapabilities
import android.os.Build
import android.provider.Settings
import android.telephony.TelephonyManager
import ringtrue.core.MobileDataProblem

/** What the system says about mobile data to an app that has only `ACCESS_NETWORK_STATE`. */
internal class MobileDataStatus(private val context: Context) {
    fun problem(): MobileDataProblem? {
        if (isActiveNetworkCellular()) return null
        val telephony = context.getSystemService(Context.TELEPHONY_SERVICE) as TelephonyManager?
        val hasRadio = context.packageManager.hasSystemFeature(PackageManager.FEATURE_TELEPHONY)
        return when {
            telephony == null || !hasRadio -> MobileDataProblem.NO_TELEPHONY
            isAirplaneModeOn() -> MobileDataProblem.AIRPLANE_MODE
            telephony.simState in UNUSABLE_SIM_STATES -> MobileDataProblem.NO_SIM
            !isDataEnabled(telephony) -> MobileDataProblem.TURNED_OFF
            else -> null
        }
    }

    private fun isActiveNetworkCellular(): Boolean {
        val connectivity = context.getSystemService(Context.CONNECTIVITY_SERVICE) as ConnectivityManager
        val network = connectivity.activeNetwork ?: return false
        val capabilities = connectivity.getNetworkCapabilities(network) ?: return false
        // A VPN over mobile data has both transports, and hides the phone from the operator.
        return capabilities.hasTransport(NetworkCapabilities.TRANSPORT_CELLULAR) &&
            !capabilities.hasTransport(NetworkCapabilities.TRANSPORT_VPN) &&
            capabilities.hasCapability(NetworkCapabilities.NET_CAPABILITY_INTERNET)
    }

    private fun isAirplaneModeOn(): Boolean =
        Settings.Global.getInt(context.contentResolver, Settings.Global.AIRPLANE_MODE_ON, 0) != 0

    /** True if the system does not say: Android 7 has no such call, and some makers ask for more permissions. */
    private fun isDataEnabled(telephony: TelephonyManager): Boolean {
        if (Build.VERSION.SDK_INT < Build.VERSION_CODES.O) return true
        return try {
            telephony.isDataEnabled
        } catch (notPermitted: SecurityException) {
            true
        }
    }

    private companion object {
        /** Other states, such as unknown and not ready, may still change before the network is requested. */
        val UNUSABLE_SIM_STATES = setOf(
            TelephonyManager.SIM_STATE_ABSENT,
            TelephonyManager.SIM_STATE_PIN_REQUIRED,
            TelephonyManager.SIM_STATE_PUK_REQUIRED,
            TelephonyManager.SIM_STATE_NETWORK_LOCKED,
        )
    }
}
