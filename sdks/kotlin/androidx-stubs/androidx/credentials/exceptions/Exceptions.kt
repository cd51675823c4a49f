// The exceptions of androidx.credentials 1.6 that the README's programs distinguish.
package androidx.credentials.exceptions

abstract class GetCredentialException internal constructor() : Exception()

class GetCredentialCancellationException : GetCredentialException()

class GetCredentialProviderConfigurationException : GetCredentialException()

class GetCredentialUnsupportedException : GetCredentialException()

class NoCredentialException : GetCredentialException()
