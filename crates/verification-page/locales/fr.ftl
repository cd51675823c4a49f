number = Votre numéro se terminant par { $tail }
not-your-number = Ce n’est pas votre numéro ?
sandbox = Mode test : numéros de téléphone simulés uniquement
time-left = Temps restant :
support = Besoin d’aide ?
language = Langue

## Silent check by the mobile operator

start-title = Confirmez votre numéro de téléphone
start-text = { $brand } vous demande de confirmer que ce téléphone a bien votre numéro. Activez les données mobiles, désactivez le Wi-Fi, puis continuez.
start-button = Confirmer ce téléphone
start-computer-text = { $brand } vous demande de confirmer votre numéro de téléphone. Continuez sur le téléphone qui a ce numéro :
scan-camera = Scannez le code avec l’appareil photo du téléphone.
start-open = Ouvrez le lien qui s’affiche.
start-follow = Suivez les étapes indiquées. Cette page s’actualise d’elle-même.
start-here = Continuer sur cet appareil
start-scan-label = Code QR de cette page
wallet-text = { $brand } souhaite confirmer que ce téléphone a votre numéro. Touchez le bouton, puis acceptez sur l’écran suivant. Le Wi-Fi peut rester activé.
wallet-button = Confirmer par ce mobile
wallet-again = Touchez à nouveau le bouton pour continuer.
silent-title = Confirmation de votre numéro
silent-text = Votre opérateur mobile confirme votre numéro. Cela prend quelques secondes.
continue = Continuer
other-way = Essayer un autre moyen
stalled-title = Pas encore de réponse
stalled-text = Votre opérateur mobile n’a pas répondu. Réessayez ou choisissez un autre moyen.
confirming-title = Presque terminé
confirming-text = Votre opérateur mobile a répondu. { $brand } termine la vérification.
confirming-own-text = Votre opérateur mobile a répondu. Encore une étape et c’est terminé.
confirming-elsewhere = Terminez là où vous avez commencé. Cette page continue d’elle-même.
stalled-only-text = Votre opérateur mobile n’a pas répondu. Vérifiez que les données mobiles sont activées, puis réessayez.
ask-whether-to-stop-title = Arrêter ici ?
ask-whether-to-stop-text = Il n’y a pas d’autre moyen de confirmer votre numéro.
elsewhere-title = Continuez sur votre téléphone
elsewhere-text = Votre numéro est en cours de confirmation sur votre téléphone ou dans un autre navigateur. Cette page continue d’elle-même.
allow-cookies = Cette étape a besoin d’un cookie que votre navigateur a bloqué. Autorisez les cookies pour cette page, puis réessayez.

## Text message from the user to us

text-title = Envoyez-nous un SMS
text-text = Envoyez le message ci-dessous, sans le modifier, depuis le téléphone à confirmer. Le tarif SMS habituel de votre opérateur s’applique.
text-warning = N’envoyez ce SMS que si vous êtes à l’origine de cette demande.
text-computer-text = Envoyez-nous un SMS depuis le téléphone à confirmer. Le tarif SMS habituel de votre opérateur s’applique.
text-open = Ouvrez le message qui s’affiche.
text-send = Envoyez-le sans le modifier.
text-by-hand = Ou saisissez le message vous-même
text-button = Ouvrir la messagerie
text-scan-label = Code QR contenant le SMS
text-receiver = À
text-body = Message
copy-receiver = Copier le numéro
copy-body = Copier le message
copied = Copié
copy-failed = Votre navigateur a bloqué la copie. Le texte est sélectionné : copiez-le vous-même.
text-waiting = En attente de votre message…
text-cannot = Je ne peux pas envoyer de SMS
other-sender-title = Envoyez-le avec l’autre SIM
other-sender-text = Ce SMS venait d’un autre numéro. Renvoyez-le avec la SIM dont le numéro se termine par { $tail }.
received-title = Nous avons reçu un message
received-text = Nous le vérifions. Si cette page ne continue pas dans quelques secondes, renvoyez le message ci-dessous sans le modifier.
ask-whether-to-give-up-title = Vous ne pouvez pas envoyer de SMS ?
ask-whether-to-give-up-text = Sans lui, nous ne pouvons pas confirmer votre numéro.
ask-whether-to-give-up-yes = Arrêter sans confirmer
ask-if-wrong-number-title = Ce n’est pas votre numéro ?
ask-if-wrong-number-text = { $brand } demande de confirmer le numéro se terminant par { $tail }. S’il n’est pas à vous, arrêtez ici.
ask-if-wrong-number-yes = Ce n’est pas mon numéro
ask-no = Revenir

## SIM Swap check

sim-title = Une dernière vérification
sim-text = Nous demandons à votre opérateur mobile si votre carte SIM a été changée récemment.

## Results

done-title = Numéro confirmé
done-text = Merci. Votre numéro de téléphone est confirmé.
mismatch-title = Numéro non confirmé
mismatch-phone-text = Ce n’est pas le numéro de ce téléphone. Vérifiez le numéro que vous avez donné à { $brand }, puis réessayez.
mismatch-text = Le numéro qui a répondu n’est pas celui que vous avez donné à { $brand }. Vérifiez le numéro, puis réessayez.
failed-title = Nous n’avons pas pu confirmer votre numéro
failed-text = Aucun des moyens disponibles n’a fonctionné. Retournez chez { $brand } pour réessayer.
given-up-title = Numéro non confirmé
given-up-text = Vous avez arrêté avant la confirmation. Retournez chez { $brand } pour réessayer.
wrong-number-title = Merci de nous l’avoir dit
wrong-number-text = Rien n’a été confirmé. Retournez chez { $brand } pour saisir votre numéro.
cancelled-title = Plus nécessaire
cancelled-text = { $brand } a annulé cette confirmation.
expired-title = Ce lien a expiré
expired-text = Le numéro n’a pas été confirmé à temps. Retournez chez { $brand } pour recommencer.
return-link = Retour à { $brand }
close = Vous pouvez maintenant fermer cette page.

## Errors

unknown-title = Ce lien n’est pas valide
unknown-text = Vérifiez que vous avez ouvert le lien complet, ou recommencez sur le site qui vous a envoyé ici.
busy-title = Trop de tentatives
busy-text = Attendez une minute, puis réessayez.
unavailable-title = Une erreur s’est produite
unavailable-text = La page n’est pas disponible pour le moment. Réessayez dans une minute.
refused-title = Ouvrez la page à nouveau
refused-text = Pour votre sécurité, vous ne pouvez continuer qu’à partir de cette page.
retry = Réessayer

## Page of a single check, whose link was opened in a browser

enter-code-text = Saisissez ce code dans l’application ou sur le site qui vous a envoyé ici. Il est valable une seule fois et expire bientôt.
device-failed-text = Votre opérateur mobile n’a pas pu confirmer votre numéro. Retournez à l’application ou au site qui vous a envoyé ici pour essayer un autre moyen.
not-mobile-title = Ce téléphone n’utilise pas les données mobiles
not-mobile-text = Votre numéro ne peut être confirmé que par les données mobiles. Désactivez le Wi-Fi, puis retournez à l’application ou au site qui vous a envoyé ici et réessayez.
used-title = Ce lien a déjà été utilisé
other-browser-title = Commencé dans un autre navigateur
other-browser-text = Rien n’a été confirmé. Si vous avez commencé vous-même, revenez au navigateur utilisé. Sinon, vous pouvez fermer cette page.
start-again-text = Retournez à l’application ou au site qui vous a envoyé ici pour recommencer.
other-browser-cookies = Si c’est bien ce navigateur, autorisez les cookies et recommencez.

## Sign-in page, on which the user enters the phone number to sign in with

sign-in-title = Se connecter à { $brand }
sign-in-text = Saisissez votre numéro de mobile. Nous vérifierons ensuite qu’il est bien à vous.
sign-in-country = Pays ou région
sign-in-choose-country = Choisissez…
sign-in-number = Numéro de mobile
sign-in-hint = Avec ou sans l’indicatif du pays
sign-in-sandbox-hint = Utilisez un numéro simulé, par exemple { $example }
sign-in-privacy = Votre numéro ne sert qu’à vous connecter à { $brand }.
sign-in-discover = Utiliser ce téléphone
sign-in-cancel = Annuler
sign-in-enter-number = Saisir plutôt votre numéro
sign-in-stalled-text = Votre opérateur mobile n’a pas répondu. Réessayez ou saisissez votre numéro.
sign-in-invalid = Cela ne ressemble pas à un numéro de téléphone. Vérifiez-le, puis réessayez.
sign-in-not-supported = Nous ne pouvons pas confirmer ce numéro. Essayez un autre numéro de mobile.
sign-in-too-many-attempts = Trop de tentatives avec ce numéro. Réessayez plus tard ou utilisez un autre numéro.
sign-in-try-later = Nous ne pouvons pas vérifier de numéro pour le moment. Réessayez dans une minute.
sign-in-missing-country = Choisissez votre pays, ou commencez le numéro par + et l’indicatif du pays.
sign-in-ended-title = Continuez là où vous avez commencé
sign-in-ended-text = Il n’y a plus rien à faire ici. Revenez au navigateur dans lequel vous avez commencé à vous connecter.
sign-in-cancelled-title = Connexion annulée
sign-in-cancelled-text = Vous n’êtes pas connecté. Revenez à { $brand } pour réessayer.
sign-in-expired-title = Le délai est dépassé
sign-in-expired-text = Pour votre sécurité, vous devez recommencer. Revenez à { $brand }.
sign-in-failed-text = Nous n’avons pas pu vous connecter. Revenez à { $brand } pour réessayer.
sign-in-refused-title = Connexion impossible
sign-in-refused-text = L’application ou le site qui vous a envoyé ici a fait une demande non valide. Revenez en arrière et réessayez, ou contactez son assistance.
sign-in-detail = Détails pour les développeurs
