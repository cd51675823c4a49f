number = Uw nummer dat eindigt op { $tail }
sandbox = Testmodus: alleen gesimuleerde telefoonnummers

## Silent check by the mobile operator

start-title = Bevestig uw telefoonnummer
start-text = { $brand } vraagt u te bevestigen dat deze telefoon uw nummer heeft. Zet mobiele data aan en wifi uit en ga dan verder.
start-button = Deze telefoon bevestigen
silent-title = Uw nummer wordt bevestigd
silent-text = Uw mobiele provider bevestigt uw nummer. Dit duurt enkele seconden.
continue = Doorgaan
other-way = Een andere manier proberen
confirming-title = Bijna klaar
confirming-text = Uw mobiele provider heeft geantwoord. { $brand } rondt de controle af.

## Text message from the user to us

text-title = Stuur ons een sms
text-text = Stuur het onderstaande bericht ongewijzigd vanaf de telefoon die u wilt bevestigen. Het gebruikelijke sms-tarief van uw provider is van toepassing.
text-button = Berichtenapp openen
text-scan = Scan deze code met de camera van uw telefoon om het bericht daar te openen.
text-scan-label = QR-code met de sms
text-receiver = Aan
text-body = Bericht
copy-receiver = Nummer kopiëren
copy-body = Bericht kopiëren
copied = Gekopieerd
text-waiting = We wachten op uw bericht. Deze pagina gaat vanzelf verder.
text-cannot = Ik kan geen sms sturen
received-title = We hebben een bericht ontvangen
received-text = We controleren het. Gaat deze pagina niet binnen enkele seconden verder, stuur dan het onderstaande bericht nog eens ongewijzigd.

## SIM Swap check

sim-title = Nog één controle
sim-text = We vragen uw mobiele provider of uw simkaart onlangs is vervangen.

## Results

done-title = Nummer bevestigd
done-text = Dank u wel. Uw telefoonnummer is bevestigd.
mismatch-title = Nummer niet bevestigd
mismatch-text = Deze telefoon heeft niet het nummer dat u aan { $brand } hebt opgegeven. Controleer het nummer en probeer het opnieuw.
failed-title = We konden uw nummer niet bevestigen
failed-text = Geen van de beschikbare manieren is gelukt. Ga terug naar { $brand } om het opnieuw te proberen.
expired-title = Deze link is verlopen
expired-text = Het nummer is niet op tijd bevestigd. Ga terug naar { $brand } om opnieuw te beginnen.
return-link = Terug naar { $brand }
close = U kunt deze pagina nu sluiten.

## Errors

unknown-title = Deze link is niet geldig
unknown-text = Controleer of u de volledige link hebt geopend, of begin opnieuw op de site die u hierheen heeft gestuurd.
busy-title = Te veel pogingen
busy-text = Wacht een minuut en probeer het dan opnieuw.
unavailable-title = Er is iets misgegaan
unavailable-text = De pagina is op dit moment niet beschikbaar. Probeer het over een minuut opnieuw.
refused-title = Open de pagina opnieuw
refused-text = Voor uw veiligheid kunt u alleen vanaf deze pagina zelf verdergaan.
retry = Opnieuw proberen

## Page of a single check, whose link was opened in a browser

device-code-text = Voer deze code in de app of op de site in die u hierheen heeft gestuurd. De code is één keer geldig en verloopt snel.
device-failed-text = Uw mobiele provider kon uw nummer niet bevestigen. Ga terug naar de app of site die u hierheen heeft gestuurd om een andere manier te proberen.
not-mobile-title = Deze telefoon gebruikt geen mobiele data
not-mobile-text = Uw nummer kan alleen via mobiele data worden bevestigd. Zet wifi uit, ga terug naar de app of site die u hierheen heeft gestuurd en probeer het opnieuw.
used-title = Deze link is al gebruikt
start-again-text = Ga terug naar de app of site die u hierheen heeft gestuurd om opnieuw te beginnen.
