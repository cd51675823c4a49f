package ringtrue.core

/**
 * The Digital Credentials API of the device, which your app implements: on Android with `androidx.credentials`, as the
 * README shows. This library has no dependencies, and Android's own classes are not what reaches wallets there.
 */
public fun interface DigitalCredentials {
    /**
     * Starts a request and returns. Report its end to [callback] once, on any thread; later reports are ignored.
     *
     * @param requestJson what `GetDigitalCredentialOption` takes
     * @param cancellation is cancelled if the request ends without a report: end the wallet's dialog then
     */
    public fun get(requestJson: String, cancellation: Cancellation, callback: DigitalCredentialCallback)
}

/** Gets the end of a request to the wallet. */
public interface DigitalCredentialCallback {
    /** The user confirmed. [credentialJson] is that of `DigitalCredential`. */
    public fun onCredential(credentialJson: String)

    /** The request failed, for example with [WalletOutcome.Declined]. */
    public fun onFailure(failure: WalletOutcome.Failure)
}
