// The part of androidx.credentials 1.6 that the README's programs use, as its published signatures describe it.
package androidx.credentials

import android.content.Context
import android.os.CancellationSignal
import androidx.credentials.exceptions.GetCredentialException
import java.util.concurrent.Executor

@RequiresOptIn
@Retention(AnnotationRetention.BINARY)
annotation class ExperimentalDigitalCredentialApi

abstract class CredentialOption internal constructor()

@ExperimentalDigitalCredentialApi
class GetDigitalCredentialOption(val requestJson: String) : CredentialOption()

abstract class Credential internal constructor()

@ExperimentalDigitalCredentialApi
class DigitalCredential(val credentialJson: String) : Credential()

class GetCredentialRequest(val credentialOptions: List<CredentialOption>)

class GetCredentialResponse(val credential: Credential)

interface CredentialManagerCallback<R, E> {
    fun onResult(result: R)

    fun onError(e: E)
}

interface CredentialManager {
    fun getCredentialAsync(
        context: Context,
        request: GetCredentialRequest,
        cancellationSignal: CancellationSignal?,
        executor: Executor,
        callback: CredentialManagerCallback<GetCredentialResponse, GetCredentialException>,
    )

    companion object {
        fun create(context: Context): CredentialManager = throw NotImplementedError("stub of $context")
    }
}
