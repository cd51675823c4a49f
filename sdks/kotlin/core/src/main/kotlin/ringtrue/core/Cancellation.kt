package ringtrue.core

/** Cancels a running [CheckClient.open] from another thread. */
public class Cancellation {
    private val lock = Any()
    private val actions = LinkedHashSet<() -> Unit>()
    private var cancelled = false

    public val isCancelled: Boolean
        get() = synchronized(lock) { cancelled }

    /** Ends the call with [CheckOutcome.Cancelled]. Returns at once; later calls do nothing. */
    public fun cancel() {
        val pending =
            synchronized(lock) {
                if (cancelled) return
                cancelled = true
                actions.toList().also { actions.clear() }
            }
        pending.forEach { it() }
    }

    /**
     * Calls [action] once when this is cancelled, on the cancelling thread; at once if it already is. Returns a
     * function that removes the action.
     */
    public fun onCancel(action: () -> Unit): () -> Unit {
        val runNow =
            synchronized(lock) {
                if (!cancelled) actions.add(action)
                cancelled
            }
        if (runNow) action()
        return { synchronized(lock) { actions.remove(action) } }
    }
}
