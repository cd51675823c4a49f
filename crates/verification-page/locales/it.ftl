number = Il suo numero che termina con { $tail }
not-your-number = Non è il suo numero?
sandbox = Modalità di prova: solo numeri di telefono simulati
time-left = Tempo rimanente:
support = Ha bisogno di aiuto?
language = Lingua

## Silent check by the mobile operator

start-title = Confermi il suo numero di telefono
start-text = { $brand } le chiede di confermare che questo telefono ha il suo numero. Attivi i dati mobili, disattivi il Wi-Fi e poi continui.
start-button = Conferma telefono
start-computer-text = { $brand } le chiede di confermare il suo numero di telefono. Continui sul telefono che ha quel numero:
scan-camera = Inquadri il codice con la fotocamera del telefono.
start-open = Apra il link che appare.
start-follow = Segua i passaggi indicati. Questa pagina si aggiorna da sola.
start-here = Continua su questo dispositivo
start-scan-label = Codice QR di questa pagina
wallet-text = { $brand } desidera confermare che questo telefono ha il suo numero. Tocchi il pulsante e accetti nella schermata successiva. Il Wi-Fi può restare attivo.
wallet-button = Conferma con telefono
wallet-again = Tocchi di nuovo il pulsante per continuare.
silent-title = Conferma del suo numero
silent-text = Il suo operatore mobile sta confermando il numero. Richiede pochi secondi.
continue = Continua
other-way = Prova in un altro modo
stalled-title = Ancora nessuna risposta
stalled-text = Il suo operatore mobile non ha risposto. Riprovi o scelga un altro modo.
confirming-title = Quasi fatto
confirming-text = Il suo operatore mobile ha risposto. { $brand } sta completando la verifica.
confirming-own-text = Il suo operatore mobile ha risposto. Ancora un passo e ha finito.
confirming-elsewhere = Concluda dove ha iniziato. Questa pagina prosegue da sola.
stalled-only-text = Il suo operatore mobile non ha risposto. Controlli che i dati mobili siano attivi, poi riprovi.
ask-whether-to-stop-title = Terminare qui?
ask-whether-to-stop-text = Non c’è un altro modo per confermare il suo numero.
elsewhere-title = Continui sul suo telefono
elsewhere-text = Il suo numero viene confermato sul suo telefono o in un altro browser. Questa pagina prosegue da sola.
allow-cookies = Questo passaggio richiede un cookie che il suo browser ha bloccato. Consenta i cookie per questa pagina, poi riprovi.

## Text message from the user to us

text-title = Ci invii un SMS
text-text = Invii il messaggio qui sotto, senza modificarlo, dal telefono che desidera confermare. Si applica il normale prezzo degli SMS del suo operatore.
text-warning = Invii questo SMS solo se ha iniziato lei questa procedura.
text-computer-text = Ci invii un SMS dal telefono che desidera confermare. Si applica il normale prezzo degli SMS del suo operatore.
text-open = Apra il messaggio che appare.
text-send = Lo invii senza modificarlo.
text-by-hand = Oppure scriva il messaggio manualmente
text-button = Apri l’app dei messaggi
text-scan-label = Codice QR con l’SMS
text-receiver = A
text-body = Messaggio
copy-receiver = Copia numero
copy-body = Copia messaggio
copied = Copiato
copy-failed = Il suo browser ha bloccato la copia. Il testo è selezionato: lo copi manualmente.
text-waiting = In attesa del suo messaggio…
text-cannot = Non posso inviare un SMS
other-sender-title = Lo invii dall’altra SIM
other-sender-text = Quell’SMS è arrivato da un altro numero. Lo invii di nuovo con la SIM il cui numero termina con { $tail }.
received-title = Abbiamo ricevuto un messaggio
received-text = Lo stiamo verificando. Se questa pagina non prosegue entro pochi secondi, invii di nuovo il messaggio qui sotto senza modificarlo.
ask-whether-to-give-up-title = Non può inviare un SMS?
ask-whether-to-give-up-text = Senza non possiamo confermare il suo numero.
ask-whether-to-give-up-yes = Terminare senza conferma
ask-if-wrong-number-title = Non è il suo numero?
ask-if-wrong-number-text = { $brand } chiede di confermare il numero che termina con { $tail }. Se non è il suo, termini qui.
ask-if-wrong-number-yes = Non è il mio numero
ask-no = Indietro

## SIM Swap check

sim-title = Un’ultima verifica
sim-text = Stiamo chiedendo al suo operatore mobile se la sua SIM è stata cambiata di recente.

## Results

done-title = Numero confermato
done-text = Grazie. Il suo numero di telefono è confermato.
mismatch-title = Numero non confermato
mismatch-phone-text = Non è il numero di questo telefono. Controlli il numero che ha dato a { $brand } e riprovi.
mismatch-text = Il numero che ha risposto non è quello che ha dato a { $brand }. Controlli il numero e riprovi.
failed-title = Non siamo riusciti a confermare il suo numero
failed-text = Nessuno dei modi disponibili ha funzionato. Torni a { $brand } per riprovare.
given-up-title = Numero non confermato
given-up-text = Ha terminato prima della conferma. Torni a { $brand } per riprovare.
wrong-number-title = Grazie per avercelo detto
wrong-number-text = Non è stato confermato nulla. Torni a { $brand } per inserire il suo numero.
cancelled-title = Non serve più
cancelled-text = { $brand } ha annullato questa conferma.
expired-title = Questo link è scaduto
expired-text = Il numero non è stato confermato in tempo. Torni a { $brand } per ricominciare.
return-link = Torna a { $brand }
close = Ora può chiudere questa pagina.

## Errors

unknown-title = Questo link non è valido
unknown-text = Controlli di aver aperto il link completo oppure ricominci dal sito che l’ha portata qui.
busy-title = Troppi tentativi
busy-text = Attenda un minuto, poi riprovi.
unavailable-title = Qualcosa è andato storto
unavailable-text = La pagina non è disponibile in questo momento. Riprovi tra un minuto.
refused-title = Apra di nuovo la pagina
refused-text = Per la sua sicurezza può continuare solo da questa pagina.
retry = Riprova

## Page of a single check, whose link was opened in a browser

enter-code-text = Inserisca questo codice nell’app o nel sito che l’ha portata qui. È valido una sola volta e scade presto.
device-failed-text = Il suo operatore mobile non ha potuto confermare il numero. Torni all’app o al sito che l’ha portata qui per provare in un altro modo.
not-mobile-title = Questo telefono non usa i dati mobili
not-mobile-text = Il suo numero può essere confermato solo con i dati mobili. Disattivi il Wi-Fi, torni all’app o al sito che l’ha portata qui e riprovi.
used-title = Questo link è già stato usato
other-browser-title = Iniziato in un altro browser
other-browser-text = Non è stato confermato nulla. Se ha iniziato lei, torni al browser in cui ha iniziato. Altrimenti può chiudere questa pagina.
start-again-text = Torni all’app o al sito che l’ha portata qui per ricominciare.
other-browser-cookies = Se è ancora in quel browser, consenta i cookie e ricominci.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Accesso a { $brand }
sign-in-text = Inserisca il suo numero di cellulare. Poi verificheremo che sia suo.
sign-in-country = Paese o regione
sign-in-choose-country = Scelga…
sign-in-number = Numero di cellulare
sign-in-hint = Con o senza il prefisso del paese
sign-in-sandbox-hint = Usi un numero simulato, per esempio { $example }
sign-in-privacy = Usiamo il suo numero solo per farla accedere a { $brand }.
sign-in-discover = Usi questo telefono
sign-in-cancel = Annulla
sign-in-enter-number = Inserisca invece il suo numero
sign-in-stalled-text = Il suo operatore mobile non ha risposto. Riprovi oppure inserisca il suo numero.
sign-in-invalid = Non sembra un numero di telefono. Lo controlli e riprovi.
sign-in-not-supported = Non possiamo confermare questo numero. Provi con un altro numero di cellulare.
sign-in-too-many-attempts = Troppi tentativi con questo numero. Riprovi più tardi o usi un altro numero.
sign-in-try-later = Al momento non possiamo verificare i numeri. Riprovi tra un minuto.
sign-in-missing-country = Scelga il suo paese oppure inizi il numero con + e il prefisso del paese.
sign-in-ended-title = Continui dove ha iniziato
sign-in-ended-text = Qui non c’è altro da fare. Torni al browser in cui ha iniziato l’accesso.
sign-in-cancelled-title = Accesso annullato
sign-in-cancelled-text = Non ha effettuato l’accesso. Torni a { $brand } per riprovare.
sign-in-expired-title = È passato troppo tempo
sign-in-expired-text = Per la sua sicurezza deve ricominciare. Torni a { $brand }.
sign-in-failed-text = Non siamo riusciti a farla accedere. Torni a { $brand } per riprovare.
sign-in-refused-title = Non è possibile accedere
sign-in-refused-text = L’app o il sito che l’ha portata qui ha inviato una richiesta non valida. Torni indietro e riprovi, oppure chieda aiuto alla sua assistenza.
sign-in-detail = Dettagli per gli sviluppatori
